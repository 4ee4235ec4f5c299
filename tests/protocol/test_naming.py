from typing import Any

import pytest

from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.commands.groups import DeleteConsumerGroup, JoinConsumerGroup
from borzoi.protocol.naming import NoFields, OfGroup, OfName, OfStream, OfTopic, OfUser


@pytest.mark.parametrize(
    ("request_", "recorded"),
    [
        (NoFields(), ""),
        (OfName("ab"), "026162"),
        (OfStream(1), "010401000000"),
        (OfTopic(1, "ab"), "01040100000002026162"),
        (OfGroup(1, "ab", 2), "01040100000002026162010402000000"),
        (OfUser("ab"), "02026162"),
    ],
)
def test_what_a_request_is_about_stands_from_the_outside_in(request_: Any, recorded: str) -> None:
    out = Writer()
    request_.encode(out)
    assert out.getvalue().hex() == recorded
    assert type(request_).decode(Reader(out.getvalue())) == request_


def test_requests_of_one_shape_are_still_different_requests() -> None:
    joined: OfGroup = JoinConsumerGroup.decode(Reader(bytes.fromhex("010401000000" * 3)))
    deleted: OfGroup = DeleteConsumerGroup(1, 1, 1)
    assert type(joined) is JoinConsumerGroup
    assert joined != deleted
