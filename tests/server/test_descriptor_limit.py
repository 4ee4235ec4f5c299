import resource
from collections.abc import Iterator

import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.descriptor_limit import (
    raise_to_hard_limit,
    refuse_too_few,
    room_for_connections,
    room_for_files,
)


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """What the test may change; put back afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_process_may_open_as_much_as_the_system_allows(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    for _ in range(2):
        raise_to_hard_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_what_the_system_refuses_is_a_warning(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))

    def refuse(*_: object) -> None:
        raise ValueError("not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuse)
        raise_to_hard_limit()
    assert "only 512 files" in caplog.text


@pytest.mark.parametrize(
    ("limit", "wanted", "room"),
    [
        (1024, 10_000, 512),
        (4096, 10_000, 3072),
        (4096, 100, 100),
        (resource.RLIM_INFINITY, 10_000, 10_000),
    ],
)
def test_clients_never_get_all_descriptors(
    monkeypatch: pytest.MonkeyPatch, limit: int, wanted: int, room: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert room_for_connections(wanted) == room


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize("limit", [64, 128, 1024, 4096, 20_000, 1_000_000])
def test_files_and_connections_and_the_rest_fit_together(
    monkeypatch: pytest.MonkeyPatch, limit: int, shards: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    room = room_for_files(shards)
    assert min(room.segments, room.offsets) >= 1
    assert bool(room.crossed) is (shards > 1)
    assert bool(room.clients) is (shards > 1)
    files = room.segments + room.offsets + (room.crossed + room.clients) * (shards - 1)
    rest = limit - room_for_connections(limit) - files
    assert rest >= min(64, limit // 4)


def test_many_descriptors_do_not_mean_more_files_of_other_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_000_000, 1_000_000))
    assert room_for_files(2).crossed == room_for_files(16).crossed == 256
    assert room_for_files(2).clients == room_for_files(16).clients == 64


def test_without_a_limit_there_is_still_a_bound_on_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert sum(room_for_files()) < 16_384


def test_too_few_descriptors_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    with pytest.raises(InvalidConfiguration, match=r"may open 20 .* \(ulimit -n\); it takes at le"):
        refuse_too_few()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 1024))
    refuse_too_few()
