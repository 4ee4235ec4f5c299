from pathlib import Path

import pytest

from borzoi.model.namespace import Namespace
from borzoi.storage import layout


def test_a_partition_lies_where_the_published_servers_put_it() -> None:
    assert layout.partition_directory(Path("data"), Namespace(1, 2, 3)) == Path(
        "data/streams/1/topics/2/partitions/3"
    )


def test_segment_files_are_named_after_their_first_offset() -> None:
    assert layout.log_name(42) == "00000000000000000042.log"
    assert layout.index_name(42) == "00000000000000000042.index"
    assert layout.twin_name(42, ".zst") == "00000000000000000042.log.zst"


@pytest.mark.parametrize("offset", [0, 42, 2**64 - 1])
def test_a_name_gives_its_offset_back(offset: int) -> None:
    assert layout.start_offset_of(layout.log_name(offset), ".log") == offset
    assert layout.start_offset_of(layout.twin_name(offset, ".gz"), ".log.gz") == offset


@pytest.mark.parametrize(
    "name",
    ["", ".log", "42.log", "0000000000000000000x.log", "00000000000000000042.index", "offsets",
     "00000000000000000042.log.tmp", "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.log"],
)  # fmt: skip
def test_foreign_names_have_no_offset(name: str) -> None:
    assert layout.start_offset_of(name, ".log") is None


def test_the_data_directory_itself_is_no_place() -> None:
    """Places are removed with everything in them."""
    with pytest.raises(AssertionError, match="a stream, a topic or a partition"):
        layout.place_directory(Path("data"), (), ("streams", "topics", "partitions"))
