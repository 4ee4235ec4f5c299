"""``python -m bench [NAME…]``: run the benchmarks and print their tables."""

import importlib
import sys

from borzoi.records.accelerator import ACCELERATOR

BENCHMARKS = (
    "decode",
    "stamp",
    "storage",
    "consensus",
    "objectstore",
    "server",
    "transports",
    "shard_starts",
    "shards",
    "stages",
    "calls",
    "spark",
    "client",
    "testing",
    "abuse",
    "cli",
    "partitions",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
        return 2
    failed = 0
    print(f"accelerator: {ACCELERATOR.description}")
    for name in names or BENCHMARKS:
        print(f"\n== {name}", flush=True)
        failed += bool(importlib.import_module(f"bench.{name}").main())
    print(f"\n{len(names or BENCHMARKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
