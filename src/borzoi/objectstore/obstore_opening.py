"""Opens the stores of `locations.py` that obstore supports."""

from datetime import timedelta
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from borzoi.model.errors import InvalidConfiguration
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.locations import SERVICES, Location, Timing, secrets_of_profile
from borzoi.objectstore.obstore_adapter import ObstoreStore


def open_remote(location: Location, timing: Timing) -> ObjectStore:
    """Two clients of one store: one that never retries, and one for uploads in parts that does."""
    once = library_store(location, timing, retries=0)
    bulk = library_store(location, timing, retries=timing.part_retries)
    return ObstoreStore(once, bulk)


def library_store(location: Location, timing: Timing, *, retries: int) -> Any:
    keywords: dict[str, Any] = {
        "prefix": location.prefix or None,
        "client_options": {
            "connect_timeout": timedelta(seconds=timing.connect_seconds),
            "timeout": timedelta(seconds=timing.request_seconds),
            "allow_http": location.endpoint.startswith("http://"),
            "pool_max_idle_per_host": "64",
        },
        "retry_config": {
            "max_retries": retries,
            "retry_timeout": timedelta(seconds=timing.part_retry_seconds),
        },
    }
    match location.service:
        case "s3":
            return S3Store(location.bucket, config=s3_config(location), **keywords)
        case "gcs":
            return GCSStore(location.bucket, config=_endpoint(location, "base_url"), **keywords)
        case "azure":
            return AzureStore(location.bucket, config=_endpoint(location, "endpoint"), **keywords)
    raise InvalidConfiguration(
        f"{location.service!r} is not a service; there are: {', '.join(SERVICES.values())}"
    )


def s3_config(location: Location) -> Any:
    """Return the library's options for an S3 store; it discovers empty ones itself."""
    secrets = location.secrets
    if location.profile and not secrets.access_key_id:
        secrets = secrets_of_profile(location.profile)
    is_plain = location.endpoint.startswith("http://")
    signs = {"auto": is_plain, "always": True, "never": False}[location.payload_signing]
    config = {
        "endpoint": location.endpoint,
        "region": location.region,
        "access_key_id": secrets.access_key_id,
        "secret_access_key": secrets.secret_access_key,
        "session_token": secrets.session_token,
        "server_side_encryption": location.server_side_encryption,
        "sse_kms_key_id": location.kms_key_id,
    }
    return {name: value for name, value in config.items() if value} | {
        "unsigned_payload": not signs
    }


def _endpoint(location: Location, name: str) -> Any:
    return {name: location.endpoint} if location.endpoint else {}
