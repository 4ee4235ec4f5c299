"""The supported table formats, by name."""

from typing import Final

KINDS: Final = ("parquet", "delta", "iceberg")
