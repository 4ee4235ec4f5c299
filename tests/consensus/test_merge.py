"""Which log a view starts with: the rules E1-E5 as a small table of claims."""

import pytest
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus.frames import blank, root, seal_prepare
from borzoi.consensus.merge import Claim, Merged, Undecided, commit_of, merge
from borzoi.consensus.messages import UNSEALED, ZERO, Prepare

CLUSTER = bytes(16)


def header(op: int, *, view: int = 1, parent: Prepare | None = None, commit: int = 0) -> Prepare:
    above = parent.checksum if parent is not None else ZERO
    # fmt: off
    return seal_prepare(Prepare(
        UNSEALED, ZERO, CLUSTER, 256, view, 1, 6, 0, ZERO, above, ZERO, op, commit, 0, 0, 4, 0, 0,
    ))
    # fmt: on


def log(length: int, *, view: int = 1, base: list[Prepare] | None = None) -> list[Prepare]:
    headers = list(base or [root(CLUSTER, 0)])
    while len(headers) <= length:
        headers.append(header(headers[-1].op + 1, view=view, parent=headers[-1]))
    return headers


def claim(
    replica: int,
    headers: list[Prepare],
    *,
    log_view: int = 1,
    commit: int = 0,
    missing: tuple[int, ...] = (),
    nacked: tuple[int, ...] = (),
    blanks: tuple[int, ...] = (),
) -> Claim:
    """Everything from commit to the head, present unless said otherwise."""
    top = headers[-1].op
    slots = range(top, commit - 1, -1)
    by_op = {known.op: known for known in headers}
    shown = tuple(blank(op) if op in blanks else by_op[op] for op in slots)
    bits = list(enumerate(slots))
    nacks = sum(1 << slot for slot, op in bits if op in nacked)
    absent = (*missing, *nacked, *blanks)
    presents = sum(1 << slot for slot, op in bits if op not in absent)
    return Claim(replica, log_view, top, commit, shown, nacks, presents)


def decided(*claims: Claim, nack_quorum: int = 2, **bugs: bool) -> Merged | Undecided:
    plant_bugs(**bugs)
    return merge(claims, nack_quorum=nack_quorum, pipeline_max=32)


def length(result: Merged | Undecided) -> int:
    assert isinstance(result, Merged), result
    return result.headers[-1].op


def test_equal_logs_stay():
    headers = log(5)
    result = decided(claim(0, headers), claim(1, headers))
    assert result == Merged(0, tuple(headers))


def test_an_op_one_replica_has_is_kept_because_it_may_be_committed():
    headers = log(5)
    assert length(decided(claim(0, headers), claim(1, headers[:4]))) == 5


def test_an_op_a_nack_quorum_never_acknowledged_ends_the_log():
    headers = log(5)
    result = decided(claim(0, headers, nacked=(5,)), claim(1, headers[:5]))
    assert length(result) == 4


def test_the_highest_log_view_is_canonical_whatever_the_length():
    old = log(7)
    new = log(5, view=2, base=old[:4])
    result = decided(claim(0, old, log_view=1), claim(1, new, log_view=2))
    assert isinstance(result, Merged)
    assert result.headers == tuple(new)
    longest = decided(
        claim(0, old, log_view=1), claim(1, new, log_view=2), merge_ignores_log_view=True
    )
    assert longest == Merged(0, tuple(old))


def test_a_different_header_of_a_lower_log_view_is_a_nack():
    old = log(5)
    new = log(5, view=2, base=old[:5])
    result = decided(claim(0, old, log_view=1), claim(1, new, log_view=2, nacked=(5,)))
    assert length(result) == 4


def test_without_a_readable_copy_nothing_is_decided():
    headers = log(5)
    claims = (claim(0, headers, missing=(5,)), claim(1, headers, missing=(5,)))
    assert decided(*claims) == Undecided(5, "no readable copy")
    assert length(decided(*claims, truncate_without_copy=True)) == 4


def test_a_third_claim_decides_what_two_could_not():
    headers = log(5)
    two = (claim(0, headers, missing=(5,)), claim(1, headers[:5]))
    assert isinstance(decided(*two), Undecided)
    assert length(decided(*two, claim(2, headers))) == 5
    assert length(decided(*two, claim(2, headers[:5]))) == 4


def test_a_blank_of_the_canonical_sender_is_never_evidence():
    """M1: the lower sender's entry may be the committed one."""
    headers = log(5)
    stranger = [*headers[:4], header(4, view=9, parent=headers[3])]
    canonical = claim(0, headers, log_view=2, blanks=(4,))
    lower = claim(1, stranger, log_view=1)
    assert decided(canonical, lower) == Undecided(4, "header unknown")
    nacked = decided(canonical, lower, nack_quorum=1, blank_is_nack=True)
    assert length(nacked) == 3


def test_a_blank_is_filled_by_the_replica_with_the_op_that_the_next_header_names():
    headers = log(6)
    canonical = claim(0, headers, log_view=2, blanks=(3, 4))
    lower = claim(1, headers[:5], log_view=1)
    assert decided(canonical, lower) == Merged(0, tuple(headers))


def test_canonical_senders_that_disagree_raise_the_alarm():
    one, other = log(3), [*log(2), header(3, view=5, parent=log(2)[2])]
    assert decided(claim(0, one), claim(1, other)) == Undecided(3, "canonical senders disagree")


def test_the_commit_is_the_highest_anyone_can_prove():
    headers = log(40)
    assert commit_of([claim(0, headers, commit=20)], 32) == 20
    assert commit_of([claim(0, headers, commit=2)], 32) == 8
    knowing = [*headers[:40], header(40, parent=headers[39], commit=30)]
    assert commit_of([claim(0, knowing, commit=2)], 32) == 30
    assert commit_of([claim(0, headers, blanks=(40,), commit=2)], 39) == 2


def test_the_window_below_the_commit_needs_no_copies():
    headers = log(5)
    result = decided(claim(0, headers, commit=3, missing=(3,)), claim(1, headers[:4], commit=3))
    assert isinstance(result, Merged)
    assert result.headers == tuple(headers[3:])


def test_the_committed_header_may_come_from_a_lower_log_view_if_it_chains():
    headers = log(4)
    lower = claim(1, headers[:4], log_view=1, commit=3)
    assert length(decided(claim(0, headers, log_view=2, blanks=(3,)), lower)) == 4
    stranger = [*headers[:3], header(3, view=9, parent=headers[2])]
    wrong = claim(1, stranger, log_view=1, commit=3)
    result = decided(claim(0, headers, log_view=2, blanks=(3,)), wrong)
    assert result == Undecided(4, "the chosen headers do not chain")


def test_an_unknown_committed_header_is_waited_for():
    headers = log(4)
    canonical = claim(0, headers, log_view=2, blanks=(3,))
    assert isinstance(decided(canonical, claim(1, headers[:3], log_view=1, commit=2)), Undecided)
    too_short = claim(1, headers[:3], commit=2)
    far = claim(0, headers, log_view=2, commit=3, blanks=(3,))
    assert decided(far, too_short).op == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("quorum", [1, 2])
def test_one_nack_is_no_quorum_of_three(quorum):
    headers = log(5)
    result = decided(claim(0, headers), claim(1, headers, nacked=(5,)), nack_quorum=quorum)
    assert length(result) == (5 if quorum == 2 else 4)
