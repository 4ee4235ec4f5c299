import re
from pathlib import Path

import click
import pytest

from borzoi.cli.faults import MEANINGS, OUTCOMES, CommandFailed, Exit, failure_of, reported
from borzoi.command_tree import INTERRUPTED
from borzoi.model import errors
from borzoi.model.errors import BorzoiError

DOCS = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_the_documentation_has_the_table_of_exit_codes():
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", DOCS.read_text("utf-8"), re.MULTILINE)
    assert {Exit(int(code)): text for code, text in rows} == MEANINGS


def test_every_exit_code_has_a_meaning():
    assert MEANINGS.keys() == set(Exit)
    assert int(Exit.INTERRUPTED) == INTERRUPTED


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (errors.CannotConnect("no"), Exit.UNREACHABLE),
        (errors.RequestTimeout("no"), Exit.UNREACHABLE),
        (errors.InvalidCredentials("no"), Exit.LOGIN_REFUSED),
        (errors.Unauthorized("no"), Exit.NOT_PERMITTED),
        (errors.StreamNotFound("no"), Exit.NOT_FOUND),
        (errors.InvalidFormat("no"), Exit.INVALID),
        (errors.InvalidConnectionString("no"), Exit.USAGE),
    ],
)
def test_an_error_has_the_exit_code_of_the_table(fault, code):
    failure = failure_of(fault)
    assert (failure.message, failure.exit_code) == ("no", code)


def test_every_error_of_borzoi_ends_with_some_exit_code():
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    known = tuple(kind for kind, _, _ in OUTCOMES)
    assert all(issubclass(one, known) for one in kinds if issubclass(one, BorzoiError))


def test_narrow_classes_stand_above_wide_ones():
    kinds = [kind for kind, _, _ in OUTCOMES]
    for place, kind in enumerate(kinds):
        assert not any(issubclass(kind, wide) for wide in kinds[:place]), kind


def test_a_failure_is_a_sentence_and_a_hint(capsys):
    CommandFailed("it broke", hint="mend it").show()
    assert capsys.readouterr() == ("", "Error: it broke\nHint: mend it\n")
    CommandFailed("it broke").show()
    assert capsys.readouterr() == ("", "Error: it broke\n")


def test_errors_of_borzoi_are_turned_and_others_are_not():
    with pytest.raises(CommandFailed), reported():
        raise errors.CannotConnect("no")
    with pytest.raises(click.UsageError), reported():
        raise click.UsageError("wrong")
