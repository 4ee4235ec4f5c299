import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.metadata.slots import Slots
from borzoi.model.errors import StateCorrupted


def three() -> Slots[str, str]:
    slots: Slots[str, str] = Slots()
    for name in "abc":
        slots.add(name, name.upper())
    return slots


def test_ids_start_at_zero_and_follow_each_other():
    assert dict(three()) == {0: "A", 1: "B", 2: "C"}


def test_the_most_recently_freed_id_is_given_out_first():
    slots = three()
    slots.remove("c")
    slots.remove("a")
    assert [slots.add(name, name) for name in "xyz"] == [0, 2, 3]


def test_items_are_found_by_name_and_listed_by_id():
    slots = three()
    slots.remove("a")
    slots.add("d", "D")
    assert slots.named("d") == "D"
    assert slots.named("a") is None
    assert slots.in_order() == ["D", "B", "C"]


def test_a_renamed_item_keeps_its_id():
    slots = three()
    slots.rename("b", "q")
    slots.rename("q", "q")
    assert slots.ids == {"a": 0, "c": 2, "q": 1}


def test_items_from_elsewhere_leave_free_ids_of_which_the_lowest_is_next():
    slots: Slots[str, str] = Slots()
    slots.restore(4, "e", "E")
    slots.restore(1, "b", "B")
    slots.fill_gaps()
    slots.check()
    assert [slots.add(name, name) for name in "wxyz"] == [0, 2, 3, 5]


def test_nothing_from_elsewhere_leaves_nothing_free():
    slots: Slots[str, str] = Slots()
    slots.fill_gaps()
    assert slots.next_id == 0


@pytest.mark.parametrize(("item_id", "key"), [(0, "new"), (9, "a")])
def test_restoring_over_something_is_refused(item_id, key):
    with pytest.raises(StateCorrupted):
        three().restore(item_id, key, "X")


def test_check_finds_ids_that_do_not_add_up():
    slots = three()
    slots.freed.append(1)
    with pytest.raises(StateCorrupted, match="add up"):
        slots.check()


def test_check_finds_a_key_that_names_nothing():
    slots = three()
    slots.ids["ghost"] = 7
    with pytest.raises(StateCorrupted, match="keys"):
        slots.check()


@given(st.lists(st.sampled_from("abcdef")))
def test_any_history_keeps_ids_dense(names):
    """Each name toggles: in when it is out, out when it is in."""
    slots: Slots[str, str] = Slots()
    for name in names:
        if name in slots.ids:
            slots.remove(name)
        else:
            slots.add(name, name)
        slots.check()
        assert all(slots.named(key) == key for key in slots.ids)
