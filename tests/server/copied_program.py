"""A program for the copies of a template: it says what a copy has, and ends when told."""

import json
import os
import random
import signal
import socket
from pathlib import Path


def main(descriptor: int) -> int:
    sock = socket.socket(fileno=descriptor)
    sock.sendall(json.dumps(seen()).encode() + b"\n")
    return int(sock.recv(16) or b"0")


def seen() -> dict[str, object]:
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "process": os.getpid(),
        "parent": os.getppid(),
        "words": Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode().split("\0"),
        "descriptors": {
            name: os.readlink(f"/proc/self/fd/{name}")
            for name in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{name}")
        },
        "threads": len(os.listdir("/proc/self/task")),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "ignored": [one for one in (1, 10) if signal.getsignal(one) is signal.SIG_IGN],
        "random": random.getrandbits(64),
        "code": [line.split()[0] for line in maps if " r-xp " in line and "/" in line],
    }
