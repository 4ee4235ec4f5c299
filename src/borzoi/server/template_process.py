"""The template of the shards: ``python -m borzoi.server.template_process PROGRAM CONTROL NAME``.

PROGRAM is a module, which is loaded here once, for all copies. CONTROL is a descriptor: for each
packet of a name and descriptors a copy begins, calls `PROGRAM.main` with the descriptors and ends
with its status. NAME only takes the place of the name of a copy in the list of processes.
"""

import ctypes
import errno
import gc
import importlib
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from borzoi.server.control_messages import receive, send
from borzoi.server.parentage import die_with_parent
from borzoi.server.signals import HARMLESS

#: As long as the name of a copy may be.
TEMPLATE_NAME: Final = "shard-template"
#: Where the fields of /proc/self/stat after the name of the program have the end of the arguments.
ARGUMENTS_END: Final = 46
#: Of a process.
NUMBER_BYTES: Final = 4
#: The answer to a request: the number of the process, or 0; and the error, or 0.
_COPIED: Final = struct.Struct("<ii")


def decode_copied(packet: bytes) -> int:
    """Return the process that was started; OSError if that was impossible."""
    process, error = _COPIED.unpack(packet)
    if error:
        raise OSError(error, f"cannot copy the template of the shards: {os.strerror(error)}")
    return int(process)


def main(arguments: Sequence[str]) -> int:
    """Make copies until the other side ends; each copy returns from here as well."""
    die_with_parent()
    for number in HARMLESS:
        signal.signal(number, signal.SIG_IGN)
    # Imports create no garbage, so collections meanwhile would find nothing.
    gc.disable()
    program = importlib.import_module(arguments[0])
    gc.collect()
    # A collection that touched what was loaded here would copy it in every shard.
    gc.freeze()
    gc.enable()
    descriptors = _copied(socket.socket(fileno=int(arguments[1])))
    return program.main(*descriptors) if descriptors else 0


def _copied(control: socket.socket) -> list[int]:
    """Make the copies that are asked for. Returns in each of them, with its descriptors, and when
    no more can come, with none."""
    while True:
        packet, descriptors = receive(control)
        if not packet:
            return []
        process, error = 0, 0
        try:
            process = _forked_twice()
        except OSError as fault:
            error = fault.errno or 0
        if not (process or error):
            control.close()
            show_name(packet)
            return descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        send(control, _COPIED.pack(process, error))


def _forked_twice() -> int:
    """Make a copy whose parent has ended; return its number, and 0 in the copy itself."""
    source, sink = os.pipe()
    try:
        between = os.fork()
        if not between:
            _fork_and_end(sink)
            return 0
        # It has ended when this returns, so the copy has its new parent.
        _, status = os.waitpid(between, 0)
        if error := os.waitstatus_to_exitcode(status):
            raise OSError(error if error > 0 else errno.ECHILD, "cannot fork")
        return int.from_bytes(os.read(source, NUMBER_BYTES), "little")
    finally:
        os.close(source)
        os.close(sink)


def _fork_and_end(sink: int) -> None:
    """Fork, write the number of the new process, and end; return in the new process only."""
    try:
        process = os.fork()
    except OSError as fault:
        os._exit(fault.errno or errno.EAGAIN)
    if process:
        os.write(sink, process.to_bytes(NUMBER_BYTES, "little"))
        os._exit(0)


def show_name(name: bytes) -> None:
    """Show a name in the list of processes, in place of the last argument."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    room = len(TEMPLATE_NAME)
    start = int(fields[ARGUMENTS_END]) - room - 1
    if ctypes.string_at(start, room) == TEMPLATE_NAME.encode():
        ctypes.memmove(start, name[:room].ljust(room, b"\0"), room)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
