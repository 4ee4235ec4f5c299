import io
import lzma
import zipfile

import pytest

from borzoi.diagnostics.archive import XZ, ZSTANDARD, archive
from borzoi.model.topics import Compression
from borzoi.records.compression import decompress

MEMBERS = [("one.txt", b"one" * 1000), ("two.txt", b"")]


@pytest.mark.parametrize("method", [XZ, ZSTANDARD])
def test_the_directory_names_every_member_where_it_lies(method: int) -> None:
    written = archive(MEMBERS, method)
    with zipfile.ZipFile(io.BytesIO(written)) as read:
        assert read.namelist() == ["one.txt", "two.txt"]
        for info, (_, content) in zip(read.infolist(), MEMBERS, strict=True):
            assert (info.compress_type, info.file_size) == (method, len(content))
            start = info.header_offset + 30 + len(info.filename)
            packed = written[start : start + info.compress_size]
            if method == XZ:
                assert lzma.decompress(packed) == content
            else:
                assert decompress(Compression.ZSTD, packed, len(content)) == content
