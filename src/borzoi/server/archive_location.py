"""The location of the archive, from its section of the settings."""

from borzoi.objectstore.locations import Location, Secrets
from borzoi.server.archive_settings import ArchiveObjectSection


def archive_location(section: ArchiveObjectSection) -> Location:
    return Location(
        service=section.service,
        bucket=section.bucket,
        prefix=section.prefix,
        endpoint=section.endpoint,
        region=section.region,
        profile=section.profile,
        payload_signing=section.payload_signing,
        server_side_encryption=section.server_side_encryption,
        kms_key_id=section.kms_key_id,
        secrets=Secrets(section.access_key_id, section.secret_access_key, section.session_token),
    )
