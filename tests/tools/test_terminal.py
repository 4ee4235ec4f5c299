import click
import pytest
from click.testing import CliRunner

from borzoi.model.errors import StorageFailure
from borzoi.tools.terminal import COULD_NOT, progress_bar, report_errors


@click.command()
@report_errors
def failing() -> None:
    raise StorageFailure("the disk is gone")


def test_an_error_is_a_sentence_and_an_exit_status() -> None:
    result = CliRunner().invoke(failing)
    assert (result.exit_code, result.stderr) == (COULD_NOT, "error: the disk is gone\n")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError(13, "Permission denied", "/some/file"), "/some/file: Permission denied"),
        (OSError("odd"), "odd"),
    ],
)
def test_so_is_an_error_of_the_system(fault: OSError, sentence: str) -> None:
    @click.command()
    @report_errors
    def command() -> None:
        raise fault

    result = CliRunner().invoke(command)
    assert (result.exit_code, result.stderr) == (COULD_NOT, f"error: {sentence}\n")


@pytest.mark.parametrize("total", [None, 100])
def test_without_a_terminal_a_bar_is_silent(
    total: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("working", total) as advance:
        advance(10)
        advance(20, new_total=200, description="still working")
    assert capsys.readouterr() == ("", "")
