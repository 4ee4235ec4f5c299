import pytest

from borzoi.handlers.validating import partitions_counted, unchecked
from borzoi.model.errors import TooManyPartitions
from borzoi.protocol.commands.partitions import CreatePartitions


def test_a_count_that_no_topic_could_make_right_is_refused() -> None:
    request = CreatePartitions(0, 0, 1000)
    assert partitions_counted(request) is unchecked(request)
    with pytest.raises(TooManyPartitions):
        partitions_counted(CreatePartitions(0, 0, 1001))
