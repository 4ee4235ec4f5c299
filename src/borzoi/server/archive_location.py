"""The location of the archive, from its section of the settings."""

import msgspec

from borzoi.objectstore.locations import Location, Secrets
from borzoi.server.archive_settings import ArchiveObjectSection


def archive_location(section: ArchiveObjectSection) -> Location:
    """The settings have the names of the location's fields, and of its secrets'."""
    location = msgspec.convert(section, Location, from_attributes=True)
    secrets = msgspec.convert(section, Secrets, from_attributes=True)
    return msgspec.structs.replace(location, secrets=secrets)
