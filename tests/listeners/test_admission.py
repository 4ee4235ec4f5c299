from borzoi.listeners.admission import Admission


def test_no_more_than_so_many_in_all() -> None:
    admission = Admission(2, 10)
    assert [admission.admit(host) for host in ("a", "b", "c")] == [True, True, False]
    assert admission.refused == 1


def test_no_more_than_so_many_from_one_address() -> None:
    admission = Admission(10, 2)
    assert [admission.admit("a") for _ in range(3)] == [True, True, False]
    assert admission.admit("b")


def test_who_leaves_makes_room() -> None:
    admission = Admission(1, 1)
    assert admission.admit("a")
    admission.leave("a")
    assert admission.admit("b")
    assert not admission.admit("a")


def test_an_address_nobody_speaks_from_is_forgotten() -> None:
    admission = Admission(10, 10)
    for number in range(5):
        admission.admit(f"host-{number}")
        admission.leave(f"host-{number}")
    assert not admission._hosts


def test_a_whole_network_of_one_customer_counts_as_one_address() -> None:
    admission = Admission(10, 2)
    assert [admission.admit(f"2001:db8::{number}") for number in range(3)] == [True, True, False]
    assert admission.admit("2001:db8:0:1::1")
    assert admission.admit("10.0.0.1")
    assert admission.admit("::ffff:10.0.0.1")
    assert not admission.admit("10.0.0.1")
    admission.leave("2001:db8::9")
    assert admission.admit("2001:db8::7")


def test_this_machine_may_take_every_place_unless_it_is_told_otherwise() -> None:
    for host in ("127.0.0.1", "127.0.0.9", "::1"):
        spared = Admission(4, 2, spares_this_machine=True)
        assert [spared.admit(host) for _ in range(5)] == [True] * 4 + [False]
        bound = Admission(4, 2)
        assert [bound.admit(host) for _ in range(3)] == [True, True, False]
    spared = Admission(4, 2, spares_this_machine=True)
    assert [spared.admit("10.0.0.1") for _ in range(3)] == [True, True, False]
