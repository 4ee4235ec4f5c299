"""The result of a creation as bytes: MessagePack array [which, fields]."""

from typing import Final, get_args

import msgspec

from borzoi.metadata.effects import Created
from borzoi.model.errors import StateCorrupted

KINDS: Final[tuple[type[Created], ...]] = get_args(Created)

#: Permissions hold read-only views of dicts, which MessagePack cannot encode.
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=dict)
_ENVELOPE: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_DECODERS: Final = tuple(msgspec.msgpack.Decoder(kind) for kind in KINDS)


def encode_created(created: Created | None) -> bytes:
    """Nothing for nothing."""
    if created is None:
        return b""
    return _ENCODER.encode((KINDS.index(type(created)), created))


def decode_created(body: bytes | memoryview) -> Created | None:
    if not body:
        return None
    try:
        which, fields = _ENVELOPE.decode(body)
        return _DECODERS[which].decode(fields)
    except (msgspec.MsgspecError, IndexError) as error:
        raise StateCorrupted(f"what was created cannot be read: {error}") from error
