from typing import Any

import msgspec
import pytest
from tests.support.rest_inputs import arguments, read

from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import FeatureUnavailable, InvalidIdentifier
from borzoi.model.limits import U64_MAX
from borzoi.protocol.rest.consuming import (
    OffsetInput,
    PollInput,
    StoreOffsetInput,
    consumer_id_of,
    consumer_of,
    printed_identifier,
)
from borzoi.protocol.rest.inputs import Input


def test_a_poll_without_parameters_has_defaults() -> None:
    assert arguments(PollInput) == {
        "consumer": Consumer(ConsumerKind.CONSUMER, 1),
        "partition_id": 0,
        "strategy": PollingStrategy.offset(0),
        "count": 10,
        "auto_commit": False,
        "wait_ms": 0,
    }
    assert arguments(PollInput, wait_ms=50)["wait_ms"] == 50


@pytest.mark.parametrize("kind", PollingKind)
def test_a_polling_kind_may_be_cut_down_to_a_letter(kind: PollingKind) -> None:
    for word in (kind.name.lower(), kind.name[0].lower()):
        assert arguments(PollInput, kind=word)["strategy"] == PollingStrategy(kind, 0)


def test_a_consumer_is_a_number_or_a_name() -> None:
    for given, consumer_id in ((7, 7), ("7", 7), ("abc", "abc")):
        stored = arguments(StoreOffsetInput, offset=1, consumer_id=given)
        assert stored["consumer"] == consumer_of(consumer_id)
    assert arguments(StoreOffsetInput, offset=1)["consumer"] == consumer_of(1)
    assert arguments(OffsetInput, consumer_id="x")["consumer"] == consumer_of("x")


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        (StoreOffsetInput, {"offset": U64_MAX + 1}),
        (StoreOffsetInput, {"offset": 1, "consumer_id": ""}),
        (StoreOffsetInput, {"offset": 1, "consumer_id": -1}),
        (OffsetInput, {"consumer_id": ""}),
        (PollInput, {"consumer_id": ""}),
        (PollInput, {"kind": "nope"}),
        (PollInput, {"value": U64_MAX + 1}),
        (PollInput, {"auto_commit": "1"}),
    ],
)
def test_the_wrong_shape_is_refused(shape: type[Input[Any]], fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(shape, **fields)


def test_a_group_cannot_read_over_http() -> None:
    assert consumer_id_of(consumer_of("c")) == "c"
    with pytest.raises(FeatureUnavailable):
        consumer_id_of(Consumer(ConsumerKind.GROUP, "g"))


def test_a_name_of_digits_cannot_be_said() -> None:
    assert printed_identifier(7) == "7"
    assert printed_identifier("s7") == "s7"
    with pytest.raises(InvalidIdentifier, match="would be read as a number"):
        printed_identifier("7")
