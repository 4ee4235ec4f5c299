"""Resource usage of this process and its machine, read from /proc.

Everything here is about our own process: a snapshot that listed other processes would disclose
them to every user with permission to read server statistics.
"""

import os
import platform
import resource
import socket
import time
from pathlib import Path

import msgspec

from borzoi.model.value import Value

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Usage(Value):
    """A sample of the resource usage; sizes in bytes, shares in percent."""

    cpu_percent: float = 0.0
    total_cpu_percent: float = 0.0
    memory_bytes: int = 0
    total_memory_bytes: int = 0
    available_memory_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    threads: int = 1
    free_disk_bytes: int = 0
    total_disk_bytes: int = 0


class Host(msgspec.Struct):
    """The machine and the process, with the last sample of their usage."""

    data_directory: Path
    started_at: float = msgspec.field(default_factory=time.time)
    usage: Usage = msgspec.field(default_factory=Usage)
    hostname: str = msgspec.field(default_factory=socket.gethostname)
    os_name: str = msgspec.field(
        default_factory=lambda: _os_release().get("NAME", platform.system())
    )
    os_version: str = msgspec.field(default_factory=lambda: _os_release().get("VERSION_ID", ""))
    kernel_version: str = msgspec.field(default_factory=platform.release)
    _busy: tuple[float, float, float, float] | None = None

    @property
    def process_id(self) -> int:
        return os.getpid()

    @property
    def run_seconds(self) -> int:
        return int(time.time() - self.started_at)

    def sample(self) -> Usage:
        """Take a sample; percentages cover the time since the last one."""
        memory = _fields_of(Path("/proc/meminfo"))
        disk = os.statvfs(self.data_directory)
        own = _fields_of(Path("/proc/self/io"))
        cpu, total = self._processor_shares()
        self.usage = Usage(
            cpu_percent=cpu,
            total_cpu_percent=total,
            memory_bytes=_resident_bytes(),
            total_memory_bytes=memory.get("MemTotal", 0) * 1024,
            available_memory_bytes=memory.get("MemAvailable", 0) * 1024,
            read_bytes=own.get("read_bytes", 0),
            written_bytes=own.get("write_bytes", 0),
            threads=_fields_of(Path("/proc/self/status")).get("Threads", 1),
            free_disk_bytes=disk.f_bavail * disk.f_frsize,
            total_disk_bytes=disk.f_blocks * disk.f_frsize,
        )
        return self.usage

    def _processor_shares(self) -> tuple[float, float]:
        now = time.monotonic()
        used = resource.getrusage(resource.RUSAGE_SELF)
        own = used.ru_utime + used.ru_stime
        busy, idle = _machine_seconds()
        before, self._busy = self._busy, (now, own, busy, idle)
        if before is None or now <= before[0]:
            return 0.0, 0.0
        machine = (busy - before[2]) + (idle - before[3])
        share = 100 * (busy - before[2]) / machine if machine > 0 else 0.0
        return 100 * (own - before[1]) / (now - before[0]), share


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _machine_seconds() -> tuple[float, float]:
    """Busy and idle seconds of all processors since the machine started."""
    try:
        first = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
        ticks = [int(part) for part in first]
    except (OSError, ValueError):
        return 0.0, 0.0
    idle = sum(ticks[3:5])
    return (sum(ticks) - idle) / CLOCK_TICKS, idle / CLOCK_TICKS


def _fields_of(path: Path) -> dict[str, int]:
    """The numbers of a file of ``name: number unit`` lines; none when there is no such file."""
    found: dict[str, int] = {}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}
