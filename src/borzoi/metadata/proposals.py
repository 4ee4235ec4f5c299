"""A requested change: the command, the caller, and the guards checked when it is applied.

::

    proposal   MessagePack array [version, code, body, user id, guards]
    version    1
    code, body the command, as `commands.encode_command` writes it
    guards     array of maps, each with its type under "type"
"""

from typing import Final

import msgspec

from borzoi.metadata.commands import Command, decode_command, encode_command
from borzoi.metadata.guards import Guard
from borzoi.model.errors import StateCorrupted
from borzoi.model.value import Value

VERSION: Final = 1


class Proposal(Value):
    command: Command
    user_id: int
    guards: tuple[Guard, ...] = ()


#: Permissions hold read-only mappings.
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=dict)
_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, int, bytes, int, tuple[Guard, ...]])


def encode_proposal(proposal: Proposal) -> bytes:
    code, body = encode_command(proposal.command)
    return _ENCODER.encode((VERSION, code, body, proposal.user_id, proposal.guards))


def decode_proposal(data: bytes | memoryview) -> Proposal:
    """The proposal that `encode_proposal` made the bytes of."""
    try:
        version, code, body, user_id, guards = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateCorrupted(f"the proposal cannot be read: {error}") from error
    if version != VERSION:
        raise StateCorrupted(f"the proposal was written in version {version} of its format")
    return Proposal(decode_command(code, body), user_id, guards)
