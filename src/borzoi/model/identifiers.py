"""How things are named: by number or by name, and how a name becomes a number.

An identifier is a plain ``int`` (numeric, u32) or a plain ``str`` (a name of 1 to 255 bytes of
UTF-8); the type says which, so a name that consists of digits stays a name.
"""

import re
from typing import TypeAlias

from xxhash import xxh32_intdigest

from borzoi.model.errors import InvalidFormat, InvalidIdentifier
from borzoi.model.limits import NAME_BYTES_MAX, U32_MAX

Identifier: TypeAlias = int | str

_SURROGATES = re.compile("[\ud800-\udfff]")

#: What ``user_id`` reads in an answer about a session without a login.
NO_USER_ID = U32_MAX

#: The first user, created at the first start; it cannot be deleted or restricted.
ROOT_USER_ID = 0


def checked_identifier(identifier: Identifier) -> Identifier:
    """The identifier itself, or `InvalidIdentifier` when no wire could carry it."""
    if isinstance(identifier, int):
        if not 0 <= identifier <= U32_MAX:
            raise InvalidIdentifier(f"numeric identifier {identifier} is not within 0..{U32_MAX}")
    elif not _is_a_name(identifier):
        raise InvalidIdentifier(f"a name has 1 to {NAME_BYTES_MAX} bytes: {identifier[:300]!r}")
    return identifier


def checked_name(name: str) -> str:
    """The name itself, or `InvalidFormat` when it is empty or longer than a name may be."""
    if not _is_a_name(name):
        raise InvalidFormat(f"a name has 1 to {NAME_BYTES_MAX} bytes: {name[:300]!r}")
    return name


def _is_a_name(text: str) -> bool:
    # What arrived as broken UTF-8 is kept with surrogate escapes; it counts, but is no name.
    encoded = text.encode("utf-8", "surrogatepass")
    return 1 <= len(encoded) <= NAME_BYTES_MAX and not _SURROGATES.search(text)


def consumer_key(consumer_id: Identifier) -> int:
    """The number under which a consumer's offset is kept: its id, or the hash of its name."""
    if isinstance(consumer_id, int):
        return consumer_id
    return xxh32_intdigest(consumer_id.encode())


def client_id_of(address: str) -> int:
    """The id of a session, from the text of its peer's address (``"127.0.0.1:54321"``)."""
    return xxh32_intdigest(address.encode())


def identifier_of(text: str) -> Identifier:
    """What people type: digits are a number, anything else is a name."""
    if text.isascii() and text.isdigit() and int(text) <= U32_MAX:
        return int(text)
    return checked_identifier(text)
