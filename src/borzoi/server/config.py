"""Settings from defaults, file and environment, validated once, with clear errors."""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from borzoi.model.errors import InvalidConfiguration, InvalidEncryptionKey
from borzoi.model.limits import POLLED_BYTES_MAX, SERVER_DEFAULT, UNLIMITED
from borzoi.model.spelling import nearest
from borzoi.model.units import DAY, format_bytes, format_duration
from borzoi.model.value import Value
from borzoi.security.encryption import decoded_key
from borzoi.server.declaring import SettingKey, keys_of, parsed_section
from borzoi.server.overrides import Override, overlaid, overrides, unknown_variables, variable
from borzoi.server.settings import EncryptionSection, Settings, SystemSection
from borzoi.server.transport_rules import transport_faults
from borzoi.server.transport_settings import TcpSocketSection

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20
KEYS: tuple[SettingKey, ...] = tuple(keys_of(Settings))

#: The default path of 0.8; the file is optional, like everything in it.
DEFAULT_FILES = ("borzoi.toml", "core/server/config.toml")


class Configuration(Value):
    """The settings, and where they came from."""

    settings: Settings
    source: str
    overrides: tuple[Override, ...]
    warnings: tuple[str, ...]

    @property
    def origin(self) -> str:
        """Where the settings came from, for people."""
        if not self.overrides:
            return self.source
        count = len(self.overrides)
        return f"{self.source} and {count} variable{'s' if count > 1 else ''}"


def load(environment: Mapping[str, str], folder: Path) -> Configuration:
    """Load the configuration of a server started in this folder with this environment."""
    document, source = _read_file(environment, folder)
    warnings = list(_unknown_keys(document))
    found = tuple(overrides(environment, KEYS))
    warnings += unknown_variables(environment, KEYS)
    settings = parsed_section(Settings, overlaid(document, found))
    check(settings)
    return Configuration(settings, source, found, tuple(warnings))


def _read_file(environment: Mapping[str, str], folder: Path) -> tuple[dict[str, Any], str]:
    named = variable(environment, "CONFIG_PATH")
    for candidate in (named,) if named else DEFAULT_FILES:
        try:
            path = _found_upwards(folder, Path(candidate))
            if path is not None:
                # Imported here: many servers have no file.
                import tomllib

                return tomllib.loads(path.read_text("utf-8")), str(path)
        except OSError as fault:
            raise InvalidConfiguration(
                f"{fault.filename or path} cannot be read: {fault.strerror}"
            ) from fault
        # ValueError, not only TOMLDecodeError: invalid UTF-8, numbers out of range.
        except ValueError as fault:
            raise InvalidConfiguration(f"{path} is not valid TOML: {fault}") from fault
    if named:
        directory = _found_upwards(folder, Path(named), Path.is_dir)
        if directory is not None:
            raise InvalidConfiguration(
                f"CONFIG_PATH: {directory} is a directory; it takes the path of a file"
            )
        raise InvalidConfiguration(
            f"the file {named} that CONFIG_PATH names is not in {folder} nor above it"
        )
    return {}, "the built-in defaults"


def _found_upwards(
    folder: Path, path: Path, wanted: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    if path.is_absolute():
        return path if wanted(path) else None
    for parent in (folder, *folder.parents):
        if wanted(parent / path):
            return parent / path
    return None


def _unknown_keys(document: Mapping[str, Any]) -> Iterator[str]:
    known = {key.path for key in KEYS}
    for path in _paths_in(document):
        if path not in known:
            near = nearest(path, known, likeness=0.6)
            hint = f"; did you mean {near}?" if near else ""
            yield f"the key {path} is not a setting{hint}"


def _paths_in(value: Any, prefix: str = "") -> Iterator[str]:
    for name, inner in value.items():
        path = f"{prefix}{name}"
        if isinstance(inner, dict):
            yield from _paths_in(inner, f"{path}.")
        elif isinstance(inner, list) and inner and all(isinstance(part, dict) for part in inner):
            for table in inner:
                yield from _paths_in(table, f"{path}[].")
        else:
            yield path


def check(settings: Settings) -> None:
    """Check the rules between keys; raise the first fault."""
    for fault in faults(settings):
        raise InvalidConfiguration(fault)


def check_follower(settings: Settings) -> None:
    """Reject a follower without a leader: clients would have nowhere to go."""
    if settings.cluster.enabled and not settings.cluster.node.others:
        raise InvalidConfiguration(
            "--follower: cluster.node.others is empty, so there would be no leader;"
            " name the other nodes there, or start without --follower"
        )


def faults(settings: Settings) -> Iterator[str]:
    """Yield every violated rule between keys."""
    yield from _storage_faults(settings)
    yield from _interval_faults(settings)
    yield from _cluster_faults(settings)
    yield from _socket_faults(settings.tcp.socket)
    yield from transport_faults(settings)


def _storage_faults(settings: Settings) -> Iterator[str]:
    system = settings.system
    if not system.path:
        # It would mean the working directory, and --fresh would delete everything there.
        yield "system.path: '' is not allowed; it takes the path of a directory"
    size = system.segment.size
    if size > GIBIBYTE or size == 0 or size % 512:
        yield f"system.segment.size: {size} B is not a multiple of 512 B from 512 B to 1 GiB"
    pool = system.memory_pool
    if pool.enabled and (pool.size < 512 * MEBIBYTE or pool.size % 4096):
        yield f"system.memory_pool.size: {pool.size} B is not a multiple of 4096 B from 512 MiB on"
    if pool.enabled and pool.bucket_capacity & (pool.bucket_capacity - 1):
        yield f"system.memory_pool.bucket_capacity: {pool.bucket_capacity} is not a power of two"
    if system.topic.max_size == SERVER_DEFAULT:
        yield "system.topic.max_size: is the server's default itself; it takes a size or unlimited"
    elif system.topic.max_size != UNLIMITED and system.topic.max_size < size:
        yield "system.topic.max_size: is below system.segment.size; a topic holds a whole segment"
    if system.topic.message_expiry == SERVER_DEFAULT:
        yield "system.topic.message_expiry: is the server's default itself; it takes a duration"
    if system.partition.size_of_messages_required_to_save == 0:
        yield "system.partition.size_of_messages_required_to_save: 0 is not allowed; at least 1 B"
    if not 0 < system.partition.max_poll_size <= POLLED_BYTES_MAX:
        yield (
            f"system.partition.max_poll_size: {system.partition.max_poll_size} B is not allowed;"
            f" it takes 1 B to {POLLED_BYTES_MAX // 10**9} GB"
        )
    if system.partition.enforce_fsync and system.partition.acknowledge == "buffered":
        yield (
            "system.partition.enforce_fsync is true and acknowledge is buffered;"
            " choose one: fsync means synced"
        )
    yield from _encryption_faults(system.encryption)
    yield from _archive_faults(system)
    log = system.logging
    if log.max_total_size and log.max_file_size > log.max_total_size:
        yield "system.logging.max_file_size: is above max_total_size; one file must fit"
    for name in ("stream", "topic", "partition"):
        path = getattr(system, name).path
        if not path or "/" in path or path in (".", ".."):
            yield f"system.{name}.path: {path!r} is not allowed; it takes one folder name"


def _encryption_faults(section: EncryptionSection) -> Iterator[str]:
    if not section.enabled:
        return
    if not section.key:
        yield "system.encryption.key: is empty and encryption is on; it takes 32 bytes in Base64"
        return
    try:
        decoded_key(section.key)
    except InvalidEncryptionKey as fault:
        yield (
            "system.encryption.key: the value given is not allowed; it takes 32 bytes in Base64"
            f" ({fault})"
        )


def _archive_faults(system: SystemSection) -> Iterator[str]:
    archiver = system.backup.archiver
    if system.segment.archive_expired and not archiver.enabled:
        yield (
            "system.segment.archive_expired is true and system.backup.archiver.enabled is false;"
            " nothing would ever be deleted: enable the archiver"
        )
    if archiver.enabled:
        # Imported here: few servers have an archive.
        from borzoi.server.archive_location import archiver_faults

        yield from archiver_faults(archiver)


def _interval_faults(settings: Settings) -> Iterator[str]:
    second = 1_000_000
    rows = (
        (True, "consumer_group.rebalancing_check_interval", 1),
        (
            settings.data_maintenance.messages.cleaner_enabled,
            "data_maintenance.messages.interval",
            1,
        ),
        (settings.message_saver.enabled, "message_saver.interval", 1),
        (
            settings.personal_access_token.cleaner.enabled,
            "personal_access_token.cleaner.interval",
            1,
        ),
        (settings.heartbeat.enabled, "heartbeat.interval", 1),
        (settings.system.backup.archiver.enabled, "system.backup.archiver.interval", second),
        (True, "system.logging.rotation_check_interval", second),
        (True, "system.logging.retention", second),
    )
    for applies, path, least in rows:
        value: Any = settings
        for part in path.split("."):
            value = getattr(value, part)
        if applies and value < least:
            allowed = "at least 1 s" if least == second else "more than 0"
            yield f"{path}: {value} µs is not allowed; it takes {allowed}"


def _socket_faults(section: TcpSocketSection) -> Iterator[str]:
    """Reject socket options that the kernel would refuse."""
    for name in ("recv_buffer_size", "send_buffer_size"):
        size = getattr(section, name)
        if size > GIBIBYTE:
            shown = format_bytes(size)
            yield f"tcp.socket.{name}: {shown} is not allowed; it takes at most 1 GiB"
    if section.linger > DAY:
        shown = format_duration(section.linger)
        yield f"tcp.socket.linger: {shown} is not allowed; it takes at most 1 day"


def _cluster_faults(settings: Settings) -> Iterator[str]:
    cluster = settings.cluster
    if not cluster.enabled:
        return
    names = [cluster.node.current.name, *(node.name for node in cluster.node.others)]
    if not cluster.name.strip() or not all(name.strip() for name in names):
        yield "cluster: the cluster and every node need a name that is not blank"
    if len(set(names)) != len(names):
        yield f"cluster.node: two nodes have the same name among {', '.join(names)}"
    taken = set()
    for node in cluster.node.others:
        if not node.ip.strip():
            yield f"cluster.node.others: the node {node.name!r} has no ip"
        for transport in ("tcp", "quic", "http", "websocket"):
            port = getattr(node.ports, transport)
            if port and (node.ip, transport, port) in taken:
                yield f"cluster.node.others: {node.ip}:{port} ({transport}) is named twice"
            taken.add((node.ip, transport, port))


def parts_not_there(configuration: Configuration) -> Iterator[str]:
    """Return a line for each part that a non-default key enables and that this version does not
    have."""
    settings = configuration.settings
    asked: dict[str, list[str]] = {}
    for key in KEYS:
        declaration = key.declaration
        if declaration.later is None or "[]" in key.path:
            continue
        section, value = None, settings
        for part in key.path.split("."):
            section, value = value, getattr(value, part)
        default = declaration.kind.parse(declaration.default)
        if getattr(section, "enabled", True) and value != default:
            asked.setdefault(declaration.later, []).append(key.path)
    for part, paths in asked.items():
        about = f" ({', '.join(paths)})" if paths else ""
        yield f"this version does not have {part} yet{about}"
    if settings.quic.enabled and not has_quic():
        yield f"quic.enabled: {QUIC_MISSING}"


#: The warning when QUIC is enabled and its library is not installed.
QUIC_MISSING = (
    "the extra quic is not installed, so the server does not listen; pip install 'borzoi[quic]'"
)


def has_quic() -> bool:
    return find_spec("qh3") is not None
