from borzoi.bench.pacing import Pacer


def test_without_a_rate_a_batch_starts_now():
    assert Pacer(0, 0).intended(77, 1000) == 77


def test_batches_are_as_far_apart_as_the_rate_says_whatever_time_it_is():
    pacer = Pacer(1000.0, 5_000_000_000)
    moments = [pacer.intended(late, 500) for late in (0, 10**12, 10**13)]
    assert moments == [5_500_000_000, 6_000_000_000, 6_500_000_000]
