"""The rate limit, with a clock that only sleeping moves."""

import pytest

from borzoi.spark.pacing import SendRate


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@pytest.mark.parametrize("rate", [1, 7, 1000, 250_000])
def test_no_second_has_more_messages_than_the_rate_and_one_request(rate: int) -> None:
    clock = Clock()
    limit = SendRate(rate, clock=clock, sleep=clock.sleep)
    size = limit.request_max
    assert size == max(1, rate // 10)
    sent: list[float] = []
    for _ in range(100):
        limit.wait_for(size)
        sent.append(clock.now)
    for start in sent:
        within = size * sum(start <= at < start + 0.999 for at in sent)
        assert within <= rate + size
    assert sent[0] == 100.0
    assert sent[-1] - sent[0] == pytest.approx(99 * size / rate)


def test_a_pause_does_not_save_up_messages() -> None:
    clock = Clock()
    limit = SendRate(100, clock=clock, sleep=clock.sleep)
    limit.wait_for(10)
    clock.now += 60
    for _ in range(11):
        limit.wait_for(10)
    assert clock.now == pytest.approx(161.0)
