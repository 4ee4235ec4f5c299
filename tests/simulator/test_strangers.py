"""Every malformed frame is refused, each for the reason it was made for."""

from random import Random

import pytest

from borzoi.consensus.frames import FrameRefused, decode_frame
from borzoi.simulator.strangers import Foreign, malformed, stranger

CLUSTER = bytes(range(16))


@pytest.mark.parametrize("what", sorted(malformed(CLUSTER, 3)))
def test_a_malformed_frame_is_refused(what):
    with pytest.raises(FrameRefused):
        decode_frame(malformed(CLUSTER, 3)[what](), CLUSTER, 3)


def test_each_breaks_a_demand_of_its_own():
    reasons = set()
    for make in malformed(CLUSTER, 3).values():
        with pytest.raises(FrameRefused) as refused:
            decode_frame(make(), CLUSTER, 3)
        reasons.add(str(refused.value))
    assert len(reasons) >= len(malformed(CLUSTER, 3)) - 3


def test_a_stranger_is_a_matter_of_the_dice():
    assert stranger(Random(3), CLUSTER, 3) == stranger(Random(3), CLUSTER, 3)
    assert isinstance(stranger(Random(3), CLUSTER, 1), Foreign)
