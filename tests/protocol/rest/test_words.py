from enum import IntEnum

import pytest

from borzoi.protocol.rest import words
from borzoi.protocol.rest.words import SNAPSHOT_COMPRESSIONS, SNAPSHOT_KINDS, TRANSPORTS, Words

TABLES = {name: table for name, table in vars(words).items() if isinstance(table, Words)}


@pytest.mark.parametrize("name", TABLES)
def test_every_member_has_a_word_and_the_word_has_the_member(name: str) -> None:
    table = TABLES[name]
    members: type[IntEnum] = type(next(iter(table._words)))
    assert [table.member(table.word(member)) for member in members] == list(members)


def test_an_unknown_word_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'smoke' is none of tcp, quic, http, ws"):
        TRANSPORTS.member("smoke")


def test_snapshots_are_asked_for_by_the_names_of_the_published_enums() -> None:
    assert " ".join(SNAPSHOT_COMPRESSIONS._members) == "Stored Deflated Bzip2 Zstd Lzma Xz"
    assert " ".join(SNAPSHOT_KINDS._members) == (
        "FilesystemOverview ProcessList ResourceUsage Test ServerLogs ServerConfig All"
    )
