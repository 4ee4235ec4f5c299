from pathlib import Path

import pytest
from tests.support.starts import settings_with

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.config import KEYS, check_follower, load, parts_not_there
from borzoi.server.declaring import SettingKey, shown_section
from borzoi.server.settings import Settings
from borzoi.server.toml import written

#: A valid value other than the default for the kinds where one cannot be guessed.
OTHER = {
    "flag": lambda key: not key.declaration.default,
    "text": lambda key: "other",
    "path": lambda key: "elsewhere",
    "list": lambda key: ["x"],
    "address": lambda key: "127.0.0.2:9",
    "duration": lambda key: "77 s",
    "bytes": lambda key: "600 MiB",
    "bytes, optional": lambda key: "77 KB",
    "expiry": lambda key: "77 s",
    "max size": lambda key: "77 GiB",
    "cpus": lambda key: "2",
    "number": lambda key: key.declaration.default + 1,
    "choice": lambda key: next(
        word
        for word in reversed(key.declaration.kind.schema["enum"])
        if word not in ("true", "false")
    ),
}
SPECIAL = {
    "system.segment.size": "512 KiB",
    "system.state.max_file_operation_retries": 0,
    "system.memory_pool.bucket_capacity": 256,
    "system.encryption.enabled": True,
    "tcp.ipv6": True,
    "system.logging.level": "debug",
    "system.partition.enforce_fsync": True,
}
#: What else has to be said for one key to be valid.
BESIDE = {
    "system.encryption.enabled": {"BORZOI_SYSTEM_ENCRYPTION_KEY": "A" * 43 + "="},
    "tcp.ipv6": {"BORZOI_TCP_ADDRESS": "[::1]:8090"},
    "cluster.enabled": {"BORZOI_CLUSTER_NAME": "c"},
    "system.segment.archive_expired": {"BORZOI_SYSTEM_BACKUP_ARCHIVER_ENABLED": "true"},
    # Each alone would not make sense; what is switched off is not judged.
    **{
        key.path: {"BORZOI_HTTP_ENABLED": "false"}
        for key in KEYS
        if key.path.startswith("http.") and key.path != "http.enabled"
    },
}


def other_value(key: SettingKey):
    return SPECIAL.get(key.path, OTHER[key.declaration.kind.name](key))


def value_of(settings: Settings, path: str):
    value = settings
    for part in path.split("."):
        name = part.removesuffix("[]")
        value = getattr(value, name)
        if name != part:
            value = value[0]
    return value


def as_text(value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, list) else ",".join(value)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_key_is_heard_in_the_environment_and_in_the_file(
    key: SettingKey, tmp_path: Path
) -> None:
    value = other_value(key)
    wanted = key.declaration.kind.parse(value)
    name = key.path.replace("[]", ".0").replace(".", "_").upper()
    environment = {f"IGGY_{name}": as_text(value), **BESIDE.get(key.path, {})}
    assert value_of(load(environment, tmp_path).settings, key.path) == wanted
    document: dict = {}
    target = document
    *sections, last = key.path.split(".")
    for part in sections:
        if part.endswith("[]"):
            target = target.setdefault(part.removesuffix("[]"), [{}])[0]
        else:
            target = target.setdefault(part, {})
    target[last] = value
    (tmp_path / "borzoi.toml").write_text(written(document))
    loaded = load(BESIDE.get(key.path, {}), tmp_path)
    assert value_of(loaded.settings, key.path) == wanted
    assert loaded.warnings == ()
    assert loaded.source.endswith("borzoi.toml")


def test_what_is_shown_loads_to_the_same_settings(tmp_path: Path) -> None:
    defaults = load({}, tmp_path).settings
    (tmp_path / "shown.toml").write_text(written(shown_section(defaults)))
    assert load({"IGGY_CONFIG_PATH": "shown.toml"}, tmp_path).settings == defaults


def test_unknown_keys_are_told_and_the_rest_counts(tmp_path: Path) -> None:
    (tmp_path / "borzoi.toml").write_text('[tcp]\nadress = "x"\nenabled = false\n')
    loaded = load({}, tmp_path)
    assert loaded.warnings == ("the key tcp.adress is not a setting; did you mean tcp.address?",)
    assert not loaded.settings.tcp.enabled


def test_the_origin_of_the_settings_is_told(tmp_path: Path) -> None:
    assert load({}, tmp_path).origin == "the built-in defaults"
    one = {"BORZOI_TCP_SOCKET_NODELAY": "true"}
    assert load(one, tmp_path).origin == "the built-in defaults and 1 variable"
    (tmp_path / "borzoi.toml").write_text("")
    two = one | {"BORZOI_HEARTBEAT_ENABLED": "true"}
    assert load(two, tmp_path).origin == f"{tmp_path / 'borzoi.toml'} and 2 variables"


def test_a_file_is_found_upwards_and_must_be_there_when_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[tcp]\nenabled = false\n")
    # A name that no file above the directory of the test has.
    folder = tmp_path / "folder-of-this-test"
    below = folder / "below"
    below.mkdir(parents=True)
    assert not load({"BORZOI_CONFIG_PATH": "mine.toml"}, below).settings.tcp.enabled
    absolute = {"BORZOI_CONFIG_PATH": str(tmp_path / "mine.toml")}
    assert not load(absolute, Path("/")).settings.tcp.enabled
    for missing in ("no.toml", str(tmp_path / "no.toml")):
        with pytest.raises(InvalidConfiguration, match=r"no\.toml"):
            load({"BORZOI_CONFIG_PATH": missing}, below)
    for directory in (folder.name, str(folder)):
        said = rf"^CONFIG_PATH: {folder} is a directory; it takes the path of a file$"
        with pytest.raises(InvalidConfiguration, match=said):
            load({"BORZOI_CONFIG_PATH": directory}, below)
    (tmp_path / "borzoi.toml").write_text("[tcp")
    with pytest.raises(InvalidConfiguration, match="TOML"):
        load({}, tmp_path)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("system.segment.size = 1.5", "system.segment.size: 1.5 is not allowed; it takes a size"),
        ("http.max_request_size = inf", "http.max_request_size: inf is not allowed; it takes a"),
        ("tcp.socket.recv_buffer_size = nan", "tcp.socket.recv_buffer_size: nan is not allowed"),
        (r'system.path = "a\u0000b"', r"system.path: 'a\x00b' is not allowed; it takes a path"),
        ('system.path = ""', "system.path: '' is not allowed; it takes the path of a directory"),
    ],
)
def test_a_value_of_the_file_that_is_not_allowed_is_told(
    line: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "borzoi.toml").write_text(line)
    with pytest.raises(InvalidConfiguration) as refused:
        load({}, tmp_path)
    assert str(refused.value).startswith(sentence)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    # Its first bytes cannot be read, not even by root.
    memory = "/proc/self/mem"
    with pytest.raises(InvalidConfiguration, match=f"{memory} cannot be read: "):
        load({"BORZOI_CONFIG_PATH": memory}, tmp_path)
    long = "n" * 300
    with pytest.raises(InvalidConfiguration, match=f"{long} cannot be read: File name too long"):
        load({"BORZOI_CONFIG_PATH": long}, tmp_path)
    for content in (b"\xff", b"a = " + b"9" * 5000):
        (tmp_path / "borzoi.toml").write_bytes(content)
        with pytest.raises(InvalidConfiguration, match=r"borzoi\.toml is not valid TOML"):
            load({}, tmp_path)


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"SYSTEM_SEGMENT_SIZE": "2 GiB"}, "system.segment.size"),
        ({"SYSTEM_SEGMENT_SIZE": "1000 B"}, "system.segment.size"),
        ({"SYSTEM_MEMORY_POOL_SIZE": "1 MiB"}, "system.memory_pool.size"),
        ({"SYSTEM_MEMORY_POOL_BUCKET_CAPACITY": "300"}, "system.memory_pool.bucket_capacity"),
        ({"SYSTEM_TOPIC_MAX_SIZE": "server_default"}, "system.topic.max_size"),
        ({"SYSTEM_TOPIC_MAX_SIZE": "1 MiB"}, "system.topic.max_size"),
        ({"SYSTEM_TOPIC_MESSAGE_EXPIRY": "server_default"}, "system.topic.message_expiry"),
        (
            {"SYSTEM_PARTITION_SIZE_OF_MESSAGES_REQUIRED_TO_SAVE": "0 B"},
            "size_of_messages_required_to_save",
        ),
        ({"SYSTEM_PARTITION_MAX_POLL_SIZE": "0 B"}, "system.partition.max_poll_size"),
        ({"SYSTEM_PARTITION_MAX_POLL_SIZE": "5 GB"}, "system.partition.max_poll_size"),
        (
            {
                "SYSTEM_PARTITION_ENFORCE_FSYNC": "true",
                "SYSTEM_PARTITION_ACKNOWLEDGE": "buffered",
            },
            "enforce_fsync",
        ),
        ({"SYSTEM_ENCRYPTION_ENABLED": "true"}, "system.encryption.key"),
        (
            {"SYSTEM_LOGGING_MAX_FILE_SIZE": "2 GB", "SYSTEM_LOGGING_MAX_TOTAL_SIZE": "1 GB"},
            "system.logging.max_file_size",
        ),
        ({"SYSTEM_STREAM_PATH": "a/b"}, "system.stream.path"),
        ({"HEARTBEAT_ENABLED": "true", "HEARTBEAT_INTERVAL": "0"}, "heartbeat.interval"),
        ({"SYSTEM_LOGGING_RETENTION": "1 ms"}, "system.logging.retention"),
        ({"TCP_ADDRESS": "localhost:8090"}, "tcp.address"),
        ({"TCP_IPV6": "true"}, "tcp.ipv6"),
        (
            {"TCP_SOCKET_RECV_BUFFER_SIZE": "3 GB"},
            "tcp.socket.recv_buffer_size: 3 GB is not allowed; it takes at most 1 GiB",
        ),
        ({"TCP_SOCKET_SEND_BUFFER_SIZE": "1073741825"}, "tcp.socket.send_buffer_size"),
        (
            {"TCP_SOCKET_LINGER": "100000 days"},
            "tcp.socket.linger: 100000d is not allowed; it takes at most 1 day",
        ),
        ({"CLUSTER_ENABLED": "true", "CLUSTER_NAME": " "}, "cluster"),
        (
            {
                "CLUSTER_ENABLED": "true",
                "CLUSTER_NODE_OTHERS_0_NAME": "iggy-node-1",
                "CLUSTER_NODE_OTHERS_0_IP": "1.1.1.1",
            },
            "same name",
        ),
        ({"CLUSTER_ENABLED": "true", "CLUSTER_NODE_OTHERS_0_NAME": "b"}, "no ip"),
        (
            {
                "CLUSTER_ENABLED": "true",
                **{
                    f"CLUSTER_NODE_OTHERS_{number}_{name}": value
                    for number in range(2)
                    for name, value in (
                        ("NAME", f"b{number}"),
                        ("IP", "1.1.1.1"),
                        ("PORTS_TCP", "9"),
                    )
                },
            },
            "named twice",
        ),
    ],
)
def test_rules_between_keys_are_told_by_name(
    environment: dict[str, str], key: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfiguration, match=key.replace(".", r"\.")):
        settings_with(tmp_path, **environment)


@pytest.mark.parametrize(
    ("key", "why"), [("c2hvcnQ=", "has 5 bytes"), ("not base64 at all!", "not base64")]
)
def test_a_key_that_cannot_encrypt_is_told_and_not_shown(
    key: str, why: str, tmp_path: Path
) -> None:
    environment = {"BORZOI_SYSTEM_ENCRYPTION_KEY": key}
    assert load(environment, tmp_path).settings.system.encryption.key == key
    with pytest.raises(InvalidConfiguration, match=r"^system\.encryption\.key: ") as refused:
        load({**environment, "BORZOI_SYSTEM_ENCRYPTION_ENABLED": "true"}, tmp_path)
    assert why in str(refused.value)
    assert "32 bytes in Base64" in str(refused.value)
    assert key not in str(refused.value)


def test_certificates_must_be_there_unless_we_may_make_one(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    environment = {
        "BORZOI_TCP_TLS_ENABLED": "true",
        "BORZOI_TCP_TLS_CERT_FILE": str(cert),
        "BORZOI_TCP_TLS_KEY_FILE": str(key),
    }
    load(environment, tmp_path)
    environment["BORZOI_TCP_TLS_SELF_SIGNED"] = "false"
    with pytest.raises(InvalidConfiguration, match=rf"^tcp\.tls\.cert_file: '{cert}' is not there"):
        load(environment, tmp_path)
    cert.touch()
    with pytest.raises(InvalidConfiguration, match=rf"^tcp\.tls\.key_file: '{key}' is not there"):
        load(environment, tmp_path)
    key.touch()
    load(environment, tmp_path)
    unnamable = {**environment, "BORZOI_TCP_TLS_KEY_FILE": "n" * 300}
    with pytest.raises(InvalidConfiguration, match=r"^tcp\.tls\.key_file"):
        load(unnamable, tmp_path)
    load({**unnamable, "BORZOI_TCP_ENABLED": "false"}, tmp_path)


def test_a_cluster_that_is_only_switched_on_has_the_second_node_of_the_published_file(
    tmp_path: Path,
) -> None:
    (other,) = load({"IGGY_CLUSTER_ENABLED": "true"}, tmp_path).settings.cluster.node.others
    assert (other.name, other.ip) == ("iggy-node-2", "127.0.0.1")
    ports = other.ports
    assert (ports.tcp, ports.quic, ports.http, ports.websocket) == (8091, 8081, 3001, 8093)
    named = {"IGGY_CLUSTER_NODE_OTHERS_0_NAME": "b", "IGGY_CLUSTER_NODE_OTHERS_0_IP": "10.0.0.2"}
    (other,) = load(named, tmp_path).settings.cluster.node.others
    assert (other.name, other.ports.tcp) == ("b", 0), "what is given replaces it"


def test_a_follower_needs_a_leader_or_no_cluster(tmp_path: Path) -> None:
    check_follower(load({}, tmp_path).settings)
    cluster = {"BORZOI_CLUSTER_ENABLED": "true"}
    check_follower(load(cluster, tmp_path).settings)
    (tmp_path / "borzoi.toml").write_text("[cluster.node]\nothers = []\n")
    with pytest.raises(InvalidConfiguration, match=r"^--follower: cluster\.node\.others is empty"):
        check_follower(load(cluster, tmp_path).settings)
    other = {"NAME": "two", "IP": "10.0.0.2"}
    cluster |= {f"BORZOI_CLUSTER_NODE_OTHERS_0_{name}": value for name, value in other.items()}
    check_follower(load(cluster, tmp_path).settings)


def test_parts_that_are_not_there_are_told_once_when_they_are_asked_for(tmp_path: Path) -> None:
    quiet = {
        "BORZOI_HTTP_ENABLED": "false",
        "BORZOI_QUIC_ENABLED": "false",
        "BORZOI_WEBSOCKET_ENABLED": "false",
    }
    assert list(parts_not_there(load(quiet, tmp_path))) == []
    assert list(parts_not_there(load({}, tmp_path))) == []
    asked = {**quiet, "BORZOI_TELEMETRY_ENABLED": "true"}
    lines = list(parts_not_there(load(asked, tmp_path)))
    assert any("telemetry.enabled" in line for line in lines)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"SYSTEM_SEGMENT_ARCHIVE_EXPIRED": "true"}, "enable the archiver"),
        (
            {"ENABLED": "true", "PART_SIZE": "4 MiB"},
            "part_size: .* is not allowed; it takes 5 MiB to 512 MiB",
        ),
        ({"ENABLED": "true", "KIND": "object"}, "needs a bucket"),
        (
            {"ENABLED": "true", "KIND": "object", "OBJECT_BUCKET": "b", "OBJECT_PREFIX": "a//b"},
            "'a//b' is not a key",
        ),
        ({"ENABLED": "true", "NAME": "a/b"}, "takes one part of a key"),
        ({"ENABLED": "true", "NAME": "a b"}, "is not a key"),
        ({"ENABLED": "true", "INTERVAL": "0 s"}, "interval: 0 µs is not allowed"),
    ],
)
def test_an_archiver_that_cannot_work_is_refused(
    variables: dict[str, str], text: str, tmp_path: Path
) -> None:
    prefix = "BORZOI_SYSTEM_BACKUP_ARCHIVER_"
    environment = {
        name if name.startswith("BORZOI_") else f"{prefix}{name}": value
        for name, value in (
            (f"BORZOI_{name}" if name.startswith("SYSTEM_") else name, value)
            for name, value in variables.items()
        )
    }
    with pytest.raises(InvalidConfiguration, match=text):
        load(environment, tmp_path)


def test_the_secrets_of_an_archive_are_masked(tmp_path: Path) -> None:
    prefix = "BORZOI_SYSTEM_BACKUP_ARCHIVER_OBJECT_"
    names = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")
    settings = load({prefix + name: "hidden-value" for name in names}, tmp_path).settings
    assert settings.system.backup.archiver.object.secret_access_key == "hidden-value"
    assert "hidden-value" not in repr(settings)
    assert "hidden-value" not in str(shown_section(settings))


def test_a_missing_extra_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("borzoi.server.config.has_quic", lambda: False)
    (line,) = parts_not_there(load({}, tmp_path))
    assert "pip install 'borzoi[quic]'" in line
    assert list(parts_not_there(load({"BORZOI_QUIC_ENABLED": "false"}, tmp_path))) == []
