"""The banner of a server that is ready. Pure."""

import shlex
from collections.abc import Mapping, Sequence

from borzoi import __version__
from borzoi.model.value import Value

SURVIVES = {
    "buffered": "a send is answered once it is in memory; a crash loses unsaved messages",
    "written": "a send is answered once it is in the page cache; it survives kill -9",
    "synced": "a send is answered once it is on the disk; it survives a power cut",
}


class Readiness(Value):
    """The facts of a start."""

    addresses: Mapping[str, str]
    data_directory: str
    acknowledge: str
    settings_source: str
    root_source: str
    root_username: str
    root_password: str | None
    accelerator: str
    notes: Sequence[str]


def banner(ready: Readiness) -> str:
    """Return the lines, most important first, ending with a command to try."""
    lines = [f"borzoi {__version__} is ready", ""]
    lines += [f"  {name:<12} {address}" for name, address in ready.addresses.items()]
    lines += [
        f"  data         {ready.data_directory}",
        f"  settings     {ready.settings_source}",
        f"  acknowledge  {ready.acknowledge}: {SURVIVES[ready.acknowledge]}",
        f"  accelerator  {ready.accelerator}",
        f"  root user    {ready.root_username}, password {ready.root_source}",
    ]
    if ready.root_password is not None:
        lines.append(f"  password     {ready.root_password}")
    lines += [f"  note         {note}" for note in ready.notes]
    tcp = ready.addresses.get("tcp")
    if tcp is not None:
        username = shlex.quote(ready.root_username)
        lines += ["", f"  try: iggy --tcp-server-address {tcp} --username {username} ping"]
    return "\n".join(lines)
