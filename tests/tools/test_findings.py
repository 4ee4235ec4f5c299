from pathlib import Path

from borzoi.tools.findings import Finding, Severity


def test_a_finding_reads_as_a_place_and_a_sentence():
    path = Path("data/00000000000000000000.log")
    assert str(Finding(Severity.NOTE, path, "is fine")) == f"{path}: is fine"
    assert (
        str(Finding(Severity.DAMAGE, path, "is damaged", position=5, offset=2))
        == f"{path}, byte 5, message 2: is damaged"
    )


def test_grades_can_be_compared():
    assert Severity.NOTE < Severity.WARNING < Severity.DAMAGE
