import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.limits import U32_MAX
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings


@pytest.mark.parametrize("size", [0, -512, 511, 513, U32_MAX + 1, 1 << 33])
def test_a_segment_has_a_multiple_of_512_bytes_that_u32_can_address(size: int) -> None:
    with pytest.raises(InvalidConfiguration):
        SegmentSettings(size=size)


def test_the_defaults_are_those_people_know() -> None:
    assert SegmentSettings().size == 1 << 30
    settings = PartitionSettings()
    assert settings.acknowledge is Acknowledge.WRITTEN
    assert settings.messages_required_to_save == 1024
    assert settings.size_of_messages_required_to_save == 1 << 20


def test_a_journal_that_is_never_saved_is_refused() -> None:
    with pytest.raises(InvalidConfiguration):
        PartitionSettings(messages_required_to_save=0)
    with pytest.raises(InvalidConfiguration):
        PartitionSettings(size_of_messages_required_to_save=0)
