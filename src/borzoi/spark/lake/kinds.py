"""The table formats there are, by the name people write."""

from typing import Final

KINDS: Final = ("parquet", "delta", "iceberg")
