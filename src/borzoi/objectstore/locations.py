"""Where a store is: `s3://bucket/prefix?endpoint=http://host:8333`, `file:///srv/archive`, …

    s3://BUCKET/PREFIX       Amazon S3 and what speaks its protocol
    gs://BUCKET/PREFIX       Google Cloud Storage
    az://CONTAINER/PREFIX    Azure Blob Storage
    file:///DIRECTORY        files
    memory://                this process, for tests

An address never contains secrets, because addresses are logged. They come from the settings, or
obstore finds them: `AWS_*` variables, web identity, container and instance metadata.
"""

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from borzoi.model.errors import FeatureUnavailable, InvalidConfiguration
from borzoi.model.value import Value
from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.keys import checked_key
from borzoi.objectstore.memory import MemoryStore

SERVICES: Final[Mapping[str, str]] = {
    "s3": "s3",
    "gs": "gcs",
    "az": "azure",
    "file": "file",
    "memory": "memory",
}
#: Query parameters of an address.
OPTIONS: Final = ("endpoint", "region", "profile")
CREDENTIALS_FILE: Final = Path("~", ".aws", "credentials")


class Secrets(Value):
    """Explicit credentials; for empty ones the library searches. Never shown."""

    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""

    def __repr__(self) -> str:
        return "Secrets(given)" if self.access_key_id else "Secrets()"


class Timing(Value):
    """How long the library waits for a store; its retries apply to parts only."""

    connect_seconds: float = 3.0
    request_seconds: float = 30.0
    part_retries: int = 10
    part_retry_seconds: float = 180.0


DEFAULT_TIMING: Final = Timing()


class Location(Value):
    """A store, and everything needed to open it."""

    service: str
    bucket: str = ""
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    #: "auto" leaves payloads unsigned where TLS protects them.
    payload_signing: str = "auto"
    server_side_encryption: str = ""
    kms_key_id: str = ""
    secrets: Secrets = Secrets()

    def __str__(self) -> str:
        scheme = next(name for name, service in SERVICES.items() if service == self.service)
        if self.service in ("file", "memory"):
            return f"{scheme}://{quote(self.prefix)}"
        given = {name: getattr(self, name) for name in OPTIONS if getattr(self, name)}
        query = "&".join(f"{name}={quote(value, safe=':/')}" for name, value in given.items())
        path = f"{self.bucket}/{self.prefix}".rstrip("/")
        return f"{scheme}://{path}" + (f"?{query}" if query else "")


def parse_location(url: str) -> Location:
    """Parse the address of a store; the error says what is wrong with it."""
    parts = urlsplit(url)
    service = SERVICES.get(parts.scheme)
    if service is None:
        allowed = ", ".join(f"{scheme}://" for scheme in SERVICES)
        raise InvalidConfiguration(
            f"{url!r} is not the address of a store; it begins with {allowed}"
        )
    if "@" in parts.netloc:
        raise InvalidConfiguration(
            "credentials do not belong in an address; set AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY"
        )
    path = unquote(parts.path)
    if service == "file":
        return checked_location(Location(service, prefix=parts.netloc + path))
    options = dict(parse_qsl(parts.query))
    for name in options:
        if name not in OPTIONS:
            raise InvalidConfiguration(
                f"{parts.scheme}://{parts.netloc}{path}?{name}=… is not known;"
                f" an address takes {', '.join(OPTIONS)}"
            )
    return checked_location(
        Location(
            service,
            parts.netloc,
            path.strip("/"),
            endpoint=options.get("endpoint", ""),
            region=options.get("region", ""),
            profile=options.get("profile", ""),
        )
    )


def checked_location(location: Location) -> Location:
    """Return the location if a store can be opened from it."""
    if location.service == "file":
        if not location.prefix:
            raise InvalidConfiguration("a store of files needs a directory: file:///DIRECTORY")
        return location
    if location.service != "memory" and not location.bucket:
        raise InvalidConfiguration(f"a store of the service {location.service} needs a bucket")
    if location.prefix:
        checked_key(location.prefix)
    return location


def open_store(location: Location, timing: Timing = DEFAULT_TIMING) -> ObjectStore:
    """Open the store. No request is sent yet, so a wrong address fails at the first one."""
    match location.service:
        case "memory":
            return MemoryStore()
        case "file":
            return DirectoryStore(Path(location.prefix))
    try:
        from borzoi.objectstore.obstore_opening import open_remote
    except ImportError as missing:
        raise FeatureUnavailable(
            f"the store {location} needs the extra 'object': pip install 'borzoi[object]'"
        ) from missing
    return open_remote(location, timing)


def secrets_of_profile(profile: str, file: Path = CREDENTIALS_FILE) -> Secrets:
    """Return the keys of a profile in the credentials file that AWS tools share."""
    path = file.expanduser()
    parser = configparser.ConfigParser()
    parser.read(path)
    if not parser.has_section(profile):
        raise InvalidConfiguration(f"there is no profile {profile!r} in {path}")
    found = parser[profile]
    try:
        return Secrets(
            found["aws_access_key_id"],
            found["aws_secret_access_key"],
            found.get("aws_session_token", ""),
        )
    except KeyError as missing:
        raise InvalidConfiguration(
            f"the profile {profile!r} in {path} has no {missing.args[0]}; profiles that log in"
            " elsewhere are not supported"
        ) from None
