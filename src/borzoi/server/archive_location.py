"""The location of the archive, from its section of the settings, and what may be wrong there."""

from collections.abc import Iterator
from typing import Final

import msgspec

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.units import format_bytes
from borzoi.objectstore.errors import InvalidKey
from borzoi.objectstore.interface import PART_BYTES_MIN
from borzoi.objectstore.keys import checked_key
from borzoi.objectstore.locations import Location, Secrets, checked_location
from borzoi.server.archive_settings import ArchiveObjectSection, ArchiverSection

#: The largest that an archive may use; a part is in memory while it is sent.
PART_BYTES_MAX: Final = 512 << 20


def archive_location(section: ArchiveObjectSection) -> Location:
    """The settings have the names of the location's fields, and of its secrets'."""
    location = msgspec.convert(section, Location, from_attributes=True)
    secrets = msgspec.convert(section, Secrets, from_attributes=True)
    return msgspec.structs.replace(location, secrets=secrets)


def archiver_faults(archiver: ArchiverSection) -> Iterator[str]:
    """Say what is wrong with the settings of an archiver that is enabled."""
    path = "system.backup.archiver"
    if not PART_BYTES_MIN <= archiver.part_size <= PART_BYTES_MAX:
        shown = format_bytes(archiver.part_size)
        yield f"{path}.part_size: {shown} is not allowed; it takes 5 MiB to 512 MiB"
    try:
        if "/" in archiver.name:
            yield f"{path}.name: {archiver.name!r} is not allowed; it takes one part of a key"
        elif archiver.name:
            checked_key(archiver.name)
        if archiver.kind == "object":
            checked_location(archive_location(archiver.object))
    except (InvalidKey, InvalidConfiguration) as fault:
        yield f"{path}: {fault}"
