from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from borzoi.metadata.assignment import Move, deal, levelling, quotas


@st.composite
def holdings(draw):
    """Partitions spread in any way over members, some perhaps to no member."""
    members = draw(st.integers(1, 6))
    owners = draw(st.lists(st.integers(-1, members - 1), max_size=24))
    held: list[list[int]] = [[] for _ in range(members)]
    for partition_id, owner in enumerate(owners):
        if owner >= 0:
            held[owner].append(partition_id)
    return held, [partition_id for partition_id, owner in enumerate(owners) if owner < 0]


def after(held, moves):
    hands = [list(partitions) for partitions in held]
    for partition_id, source, target in moves:
        if source is not None:
            hands[source].remove(partition_id)
        hands[target].append(partition_id)
    return hands


def fewest_moves(sizes, partitions_count):
    """Tries every fair choice of the members that have one more than the others."""
    share, rest = divmod(partitions_count, len(sizes))
    return min(
        sum(max(0, size - share - (member in more)) for member, size in enumerate(sizes))
        for more in combinations(range(len(sizes)), rest)
    )


def test_a_deal_goes_round_the_members():
    assert deal([0, 1, 2, 3, 4], 2) == [[0, 2, 4], [1, 3]]


def test_members_without_a_partition_get_an_empty_hand():
    assert deal([0], 3) == [[0], [], []]


@given(st.integers(0, 40), st.integers(1, 9))
def test_a_deal_gives_every_partition_one_owner_and_is_fair(partitions_count, members):
    hands = deal(range(partitions_count), members)
    assert sorted(p for hand in hands for p in hand) == list(range(partitions_count))
    sizes = [len(hand) for hand in hands]
    assert max(sizes) - min(sizes) <= 1


def test_what_remains_after_equal_shares_stays_where_it_is():
    assert quotas([0, 3, 3, 0], 6) == [1, 2, 2, 1]
    assert quotas([0, 0, 0], 5) == [2, 2, 1]


def test_the_newcomer_gets_from_the_end_of_the_longest_lists():
    assert levelling([[0, 1, 2, 3, 4, 5], []], []) == [Move(5, 0, 1), Move(4, 0, 1), Move(3, 0, 1)]


def test_three_partitions_spread_over_three_members_one_by_one():
    """The recorded course: A[0-2], then A[0,1] B[2], then A[0] B[2] C[1]."""
    assert levelling([[0, 1, 2], []], []) == [Move(2, 0, 1)]
    assert levelling([[0, 1], [2], []], []) == [Move(1, 0, 2)]
    assert levelling([[0], [2], [1], []], []) == []


def test_unowned_partitions_are_handed_out_before_any_is_taken():
    assert levelling([[0, 1], []], [2, 3]) == [Move(2, None, 1), Move(3, None, 1)]


@given(holdings())
def test_levelling_gives_every_partition_one_owner(spread):
    held, unowned = spread
    hands = after(held, levelling(held, unowned))
    everything = sorted([p for hand in held for p in hand] + unowned)
    assert sorted(p for hand in hands for p in hand) == everything


@given(holdings())
def test_levelling_is_fair(spread):
    held, unowned = spread
    sizes = [len(hand) for hand in after(held, levelling(held, unowned))]
    assert max(sizes) - min(sizes) <= 1


@given(holdings())
def test_levelling_takes_no_more_than_fairness_needs(spread):
    held, unowned = spread
    taken = [move for move in levelling(held, unowned) if move.source is not None]
    partitions_count = sum(map(len, held)) + len(unowned)
    assert len(taken) == fewest_moves([len(hand) for hand in held], partitions_count)
    assert all(move.source != move.target for move in taken)


@given(holdings())
def test_a_level_assignment_stays_as_it_is(spread):
    held, unowned = spread
    assert levelling(after(held, levelling(held, unowned)), []) == []


@given(st.integers(0, 30), st.integers(1, 8))
def test_only_the_new_member_of_a_fair_group_gains_partitions(partitions, members):
    held = [*deal(range(partitions), members), []]
    assert {move.target for move in levelling(held, [])} <= {members}
