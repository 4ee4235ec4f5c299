from borzoi.handlers.table import COMMANDS
from borzoi.protocol.codes import Code


def test_every_code_is_answered_exactly_once() -> None:
    assert sorted(row.request.CODE for row in COMMANDS) == sorted(Code)


def test_every_question_about_something_answers_nothing_when_it_is_missing() -> None:
    empty = {row.request.__name__ for row in COMMANDS if row.missing_is_empty}
    assert empty == {
        "GetClient",
        "GetUser",
        "GetConsumerOffset",
        "GetStream",
        "GetTopic",
        "GetTopics",
        "GetConsumerGroup",
        "GetConsumerGroups",
    }
