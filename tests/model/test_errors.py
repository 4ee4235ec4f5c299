import inspect

import pytest

from borzoi.model import errors
from borzoi.model.errors import BorzoiError, ServerError

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]


def test_everything_raised_on_purpose_has_one_ancestor() -> None:
    assert len(CLASSES) > 70
    assert all(issubclass(error, BorzoiError) for error in CLASSES)


def test_the_picture_at_the_top_of_the_module_names_every_class() -> None:
    picture = (errors.__doc__ or "").replace("│", " ").replace("├──", " ").replace("└──", " ")
    assert {error.__name__ for error in CLASSES} - set(picture.split()) == set()


@pytest.mark.parametrize("error", [each for each in CLASSES if each is not ServerError])
def test_an_exception_says_what_it_was_told(error: type[BorzoiError]) -> None:
    assert str(error("the sentence")) == "the sentence"


def test_a_server_error_keeps_its_number_and_its_sentence() -> None:
    assert ServerError(4242).code == 4242
    assert "4242" in str(ServerError(4242))
    assert str(ServerError(4242, "full moon")) == "full moon"


def test_an_error_has_its_sentence_as_message():
    assert BorzoiError("no such stream").message == "no such stream"
