"""A decoder reads any input or rejects it with an error of ours and its status."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import wire_strategies
from tests.support.golden import read_exchanges
from tests.support.wire_garbage import REFUSALS, Sample, Tally, request_sample, storm

from borzoi.model.errors import BorzoiError
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import REQUESTS, decode_request
from borzoi.protocol.errors import code_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
BYTES_MAX = 600

#: The deep storm: how many frames, and from which seed on.
FRAMES = int(os.environ.get("BORZOI_GARBAGE_FRAMES", "10_000_000"))
SEED = int(os.environ.get("BORZOI_GARBAGE_SEED", "0"))
FRAMES_PER_STORM = 250_000


@pytest.fixture(scope="module")
def corpus() -> list[Sample]:
    """Every recorded request and answer that is short enough to be damaged often."""
    drawn: dict[tuple[str, bytes], Sample] = {}
    for exchange in read_exchanges(GOLDEN):
        answered = REQUESTS.get(exchange.code or 0)
        if answered is None or len(exchange.payload) > BYTES_MAX:
            continue
        if sum(len(part) * times for part, times in exchange.runs) <= BYTES_MAX:
            request = request_sample(exchange.frame)
            assert request is not None
            drawn[request.name, request.payload] = request
        answer = answered.RESPONSE
        if answer is not None and exchange.payload:
            sample = Sample(answer.__name__, answer.decode, exchange.payload)
            drawn[sample.name, sample.payload] = sample
    return list(drawn.values())


def status_of(decode, payload: bytes) -> int | None:
    try:
        decode(payload)
    except BorzoiError as error:
        return code_of(error)
    return None


@pytest.mark.parametrize("code", sorted(REQUESTS), ids=lambda code: REQUESTS[code].__name__)
def test_garbage_for_a_request_is_read_or_refused_with_a_status(code):
    @given(st.binary(max_size=80))
    def check(garbage):
        status = status_of(lambda payload: decode_request(code, payload), garbage)
        assert status is None or status in REFUSALS

    check()


@pytest.mark.parametrize(
    "response", list(wire_strategies.RESPONSES), ids=lambda response: response.__name__
)
def test_garbage_for_a_response_is_read_or_refused_with_a_status(response):
    @given(st.binary(max_size=200))
    def check(garbage):
        status = status_of(lambda payload: response.decode(Reader(payload)), garbage)
        assert status is None or status in REFUSALS

    check()


def test_the_corpus_has_every_request_and_every_answer(corpus):
    classes = [each for request in REQUESTS.values() for each in (request, request.RESPONSE)]
    expected = {each.__name__ for each in classes if each is not None}
    assert {sample.name for sample in corpus} == expected


def test_damaged_frames_meet_no_foreign_exception(corpus):
    tally = storm(SEED, 20_000, corpus)
    assert tally.foreign == ()
    assert tally.accepted > 1000
    assert tally.refused > 1000


@pytest.mark.deep
def test_millions_of_damaged_frames_meet_no_foreign_exception(corpus, capsys):
    seeds = range(SEED, SEED + -(-FRAMES // FRAMES_PER_STORM))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        tallies: list[Tally] = list(
            pool.map(storm, seeds, [FRAMES_PER_STORM] * len(seeds), [corpus] * len(seeds))
        )
    frames, accepted, refused = (
        sum(counts) for counts in zip(*(tally[:3] for tally in tallies), strict=True)
    )
    foreign = [fault for tally in tallies for fault in tally.foreign]
    with capsys.disabled():
        print(
            f"\n{frames} damaged frames from seed {SEED}: {accepted} read, {refused} refused,"
            f" {len(foreign)} foreign exceptions"
        )
    assert foreign == []
    assert frames >= FRAMES
