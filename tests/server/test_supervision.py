import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.server import exit_statuses
from borzoi.server.control_messages import AddressesBound, AllReady, Close, PeerLost, Stop
from borzoi.server.supervision import (
    DRAIN_SECONDS_MAX,
    PAUSE_SECONDS,
    STARTS_MAX,
    STOP_SECONDS_MAX,
    Effect,
    Kill,
    Launch,
    OperatorReport,
    Supervision,
    Tell,
)

ADDRESSES = {"tcp": ("127.0.0.1", 8090)}
KILLED = -signal.SIGKILL


def serving(count: int = 3, *, restart: bool = True) -> Supervision:
    supervision = Supervision(count, restart=restart)
    supervision.begin()
    for shard in range(count):
        supervision.ready(shard, ADDRESSES)
    return supervision


def without_reports(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, OperatorReport)]


def reports(effects: list[Effect]) -> str:
    return "; ".join(effect.text for effect in effects if isinstance(effect, OperatorReport))


def status_after_the_last(supervision: Supervision, *, now: float = 0) -> int | None:
    """The exit status when shard 0, the last one, has drained and ended."""
    supervision.drained(0)
    supervision.ended(0, 0, now=now)
    return supervision.exit_status


# ---- start --------------------------------------------------------------------------------------


def test_all_shards_start_side_by_side() -> None:
    assert Supervision(3, restart=True).begin() == [
        Launch(0, first_start=True),
        Launch(1, first_start=True),
        Launch(2, first_start=True),
    ]


def test_the_others_are_told_where_shard_0_listens_and_shard_0_when_all_are_ready() -> None:
    supervision = Supervision(3, restart=True)
    supervision.begin()
    assert supervision.ready(0, ADDRESSES) == [
        Tell(1, AddressesBound(ADDRESSES)),
        Tell(2, AddressesBound(ADDRESSES)),
    ]
    assert supervision.ready(2, {}) == []
    before = supervision.was_ready
    assert supervision.ready(1, {}) == [Tell(0, AllReady())]
    assert not before
    assert supervision.was_ready
    assert supervision.exit_status is None
    assert supervision.due is None


def test_a_shard_that_ends_before_the_server_was_ready_ends_the_start() -> None:
    supervision = Supervision(3, restart=True)
    supervision.begin()
    supervision.ready(0, ADDRESSES)
    effects = supervision.ended(2, exit_statuses.CANNOT_START, now=0)
    assert reports(effects) == "shard 2 ended with status 1 before the server was ready"
    # Shard 0 may have answered clients already, so it saves; shard 1 has nothing to save.
    told = [Tell(0, PeerLost(2)), Tell(1, PeerLost(2))]
    assert without_reports(effects) == [*told, Tell(0, Stop()), Kill(1)]
    assert without_reports(supervision.ended(1, KILLED, now=0)) == [Tell(0, PeerLost(1))]
    assert supervision.drained(0) == [Tell(0, Close())]
    assert supervision.exit_status is None
    assert supervision.ended(0, 0, now=0) == []
    assert supervision.exit_status == exit_statuses.CANNOT_START


def test_shards_that_end_together_before_the_server_was_ready_are_all_named() -> None:
    supervision = Supervision(3, restart=True)
    supervision.begin()
    # Shard 0 may have ended because of shard 1; the system reports them in any order.
    supervision.ended(0, exit_statuses.CANNOT_START, now=0)
    second = supervision.ended(1, exit_statuses.CANNOT_START, now=0)
    assert reports(second) == "shard 1 ended with status 1 before the server was ready"
    assert reports(supervision.ended(2, KILLED, now=0)) == ""
    assert supervision.exit_status == exit_statuses.CANNOT_START


def test_a_stop_before_the_server_was_ready_is_no_failure() -> None:
    supervision = Supervision(2, restart=True)
    supervision.begin()
    assert supervision.stop(now=0) == [Kill(0), Kill(1)]
    assert supervision.ready(0, ADDRESSES) == []
    supervision.ended(0, KILLED, now=0)
    supervision.ended(1, KILLED, now=0)
    assert supervision.exit_status == exit_statuses.OK
    assert not supervision.was_ready


# ---- a shard dies -------------------------------------------------------------------------------


def test_a_shard_that_dies_is_replaced_and_the_others_are_told() -> None:
    supervision = serving()
    effects = supervision.ended(1, KILLED, now=0)
    assert reports(effects) == "shard 1 was ended by SIGKILL; restarting it"
    assert without_reports(effects) == [
        Tell(0, PeerLost(1)),
        Tell(2, PeerLost(1)),
        Launch(1, first_start=False),
        Tell(1, AddressesBound(ADDRESSES)),
    ]
    back = OperatorReport("shard 1 is ready again", is_fault=False)
    assert supervision.ready(1, ADDRESSES) == [back, Tell(0, AllReady())]


def test_shard_0_is_replaced_like_any_other_and_stays_where_it_was() -> None:
    supervision = serving(2)
    effects = without_reports(supervision.ended(0, exit_statuses.FAILED, now=0))
    assert effects == [
        Tell(1, PeerLost(0)),
        Launch(0, first_start=False),
        Tell(0, AddressesBound(ADDRESSES)),
    ]
    effects = supervision.ready(0, {"tcp": ("127.0.0.1", 1)})
    assert without_reports(effects) == [Tell(0, AllReady())]
    assert supervision.addresses == ADDRESSES


def test_a_shard_that_fails_ends_by_itself_and_is_replaced() -> None:
    """It drains without a request to stop, and no other shard does."""
    supervision = serving()
    assert supervision.drained(1) == [Tell(1, Close())]
    effects = supervision.ended(1, exit_statuses.FAILED, now=0)
    assert reports(effects) == "shard 1 ended with status 70; restarting it"
    assert Launch(1, first_start=False) in effects


def test_two_that_die_at_once_are_both_replaced() -> None:
    supervision = serving()
    supervision.ended(0, KILLED, now=0)
    supervision.ended(1, KILLED, now=0)
    assert without_reports(supervision.ready(1, {})) == []
    assert without_reports(supervision.ready(0, ADDRESSES)) == [Tell(0, AllReady())]


def test_a_shard_may_die_as_often_as_it_likes_when_it_was_ready_in_between() -> None:
    supervision = serving()
    for _ in range(100):
        assert Launch(1, first_start=False) in supervision.ended(1, KILLED, now=0)
        supervision.ready(1, {})
    assert supervision.exit_status is None


def test_a_shard_that_does_not_get_ready_is_tried_a_few_times_with_a_pause() -> None:
    supervision = serving(2)
    supervision.ended(1, KILLED, now=0)
    now = 0.0
    for _ in range(STARTS_MAX - 1):
        effects = supervision.ended(1, 1, now=now)
        assert without_reports(effects) == [Tell(0, PeerLost(1))]
        assert supervision.due == now + PAUSE_SECONDS
        assert supervision.elapsed(now=now) == []
        now += PAUSE_SECONDS
        assert supervision.elapsed(now=now) == [
            Launch(1, first_start=False),
            Tell(1, AddressesBound(ADDRESSES)),
        ]
        assert supervision.due is None
    effects = supervision.ended(1, 1, now=now)
    assert reports(effects) == f"shard 1 ended with status 1 {STARTS_MAX} times before it was ready"
    assert without_reports(effects) == [Tell(0, PeerLost(1)), Tell(0, Stop())]
    assert status_after_the_last(supervision, now=now) == exit_statuses.FAILED


def test_without_restart_the_server_stops_with_the_shard() -> None:
    supervision = serving(restart=False)
    effects = supervision.ended(2, KILLED, now=0)
    assert reports(effects) == "shard 2 was ended by SIGKILL, and supervisor.restart is false"
    told = [Tell(0, PeerLost(2)), Tell(1, PeerLost(2))]
    assert without_reports(effects) == [*told, Tell(0, Stop()), Tell(1, Stop())]
    supervision.drained(0)
    supervision.drained(1)
    supervision.ended(0, 0, now=0)
    supervision.ended(1, 0, now=0)
    assert supervision.exit_status == exit_statuses.FAILED


# ---- stop ---------------------------------------------------------------------------------------


def test_no_shard_closes_before_all_have_drained() -> None:
    supervision = serving()
    assert supervision.stop(now=0) == [Tell(shard, Stop()) for shard in range(3)]
    assert supervision.stop(now=1) == []
    assert supervision.drained(0) == []
    assert supervision.drained(2) == []
    assert supervision.drained(1) == [Tell(shard, Close()) for shard in range(3)]
    for shard in range(3):
        assert supervision.exit_status is None
        assert supervision.ended(shard, 0, now=2) == []
    assert supervision.exit_status == exit_statuses.OK


def test_a_shard_that_dies_meanwhile_is_not_waited_for() -> None:
    supervision = serving()
    supervision.stop(now=0)
    supervision.drained(0)
    assert supervision.ended(1, KILLED, now=0) == [
        OperatorReport("shard 1 was ended by SIGKILL"),
        Tell(0, PeerLost(1)),
        Tell(2, PeerLost(1)),
    ]
    assert supervision.drained(2) == [Tell(0, Close()), Tell(2, Close())]
    supervision.ended(0, 0, now=0)
    assert supervision.ended(2, exit_statuses.FAILED, now=0) == [
        OperatorReport("shard 2 ended with status 70")
    ]
    assert supervision.exit_status == exit_statuses.FAILED


def test_a_shard_that_is_being_replaced_is_killed() -> None:
    supervision = serving(2)
    supervision.ended(1, KILLED, now=0)
    assert supervision.stop(now=0) == [Tell(0, Stop()), Kill(1)]
    assert without_reports(supervision.ended(1, KILLED, now=0)) == [Tell(0, PeerLost(1))]
    assert status_after_the_last(supervision) == exit_statuses.OK


def test_a_replacement_that_fails_during_the_stop_is_named_and_is_no_failure_of_the_stop() -> None:
    supervision = serving(2)
    supervision.ended(1, KILLED, now=0)
    supervision.stop(now=0)
    effects = supervision.ended(1, exit_statuses.CANNOT_START, now=0)
    assert reports(effects) == "shard 1 ended with status 1 before it was ready"
    assert status_after_the_last(supervision) == exit_statuses.OK


def test_a_shard_that_waits_for_its_next_start_is_forgotten() -> None:
    supervision = serving(2)
    supervision.ended(1, KILLED, now=0)
    supervision.ended(1, KILLED, now=0)
    assert supervision.stop(now=0) == [Tell(0, Stop())]
    assert supervision.due == DRAIN_SECONDS_MAX
    assert supervision.elapsed(now=PAUSE_SECONDS) == []


def test_stuck_requests_do_not_keep_the_server_from_saving() -> None:
    supervision = serving(2)
    supervision.stop(now=10)
    supervision.drained(1)
    assert supervision.due == 10 + DRAIN_SECONDS_MAX
    assert supervision.elapsed(now=10) == []
    effects = supervision.elapsed(now=10 + DRAIN_SECONDS_MAX)
    assert without_reports(effects) == [Tell(0, Close()), Tell(1, Close())]
    assert supervision.drained(0) == []
    assert supervision.due == 10 + STOP_SECONDS_MAX


def test_what_does_not_end_is_killed_and_that_is_a_failure() -> None:
    supervision = serving(3)
    supervision.stop(now=0)
    supervision.elapsed(now=DRAIN_SECONDS_MAX)
    supervision.ended(1, 0, now=DRAIN_SECONDS_MAX)
    effects = supervision.elapsed(now=STOP_SECONDS_MAX)
    assert reports(effects) == "shard 0, 2 did not end in time"
    assert without_reports(effects) == [Kill(0), Kill(2)]
    assert supervision.elapsed(now=STOP_SECONDS_MAX + 1) == []
    assert supervision.due is None
    supervision.ended(0, KILLED, now=STOP_SECONDS_MAX)
    supervision.ended(2, KILLED, now=STOP_SECONDS_MAX)
    assert supervision.exit_status == exit_statuses.FAILED


@pytest.mark.parametrize("restart", [True, False])
@given(
    events=st.lists(
        st.tuples(
            st.sampled_from(["ready", "drained", "killed", "failed", "stop", "elapsed"]),
            st.integers(0, 2),
            st.sampled_from([0.1, 1.0, 8.0]),
        ),
        max_size=60,
    )
)
def test_whatever_happens_a_stop_ends_with_a_status(
    restart: bool, events: list[tuple[str, int, float]]
) -> None:
    """Messages go to living processes, none is started twice, and the end comes."""
    supervision = Supervision(3, restart=restart)
    living: set[int] = set()
    now = 0.0

    def carry_out(effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Launch(shard):
                    assert shard not in living
                    living.add(shard)
                case Tell(shard) | Kill(shard):
                    assert shard in living

    carry_out(supervision.begin())
    for event, shard, seconds in [*events, ("stop", 0, 0.0)]:
        now += seconds
        match event:
            case "ready" if shard in living:
                carry_out(supervision.ready(shard, ADDRESSES))
            case "drained" if shard in living:
                carry_out(supervision.drained(shard))
            case "killed" | "failed" if shard in living:
                living.remove(shard)
                status = KILLED if event == "killed" else exit_statuses.FAILED
                carry_out(supervision.ended(shard, status, now=now))
            case "stop":
                carry_out(supervision.stop(now=now))
            case "elapsed":
                carry_out(supervision.elapsed(now=now))
    assert (supervision.exit_status is None) == bool(living)
    for shard in sorted(living):
        living.remove(shard)
        carry_out(supervision.ended(shard, 0, now=now))
    assert supervision.exit_status is not None
