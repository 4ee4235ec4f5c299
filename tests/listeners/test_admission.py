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
