from borzoi.bench.board import BATCHES, PAYLOAD_BYTES, RECEIVED, SENT, Board


def test_rows_of_actors_add_up():
    board = Board(3)
    board.add(0, sent=5, payload_bytes=50)
    board.add(0, sent=1, payload_bytes=10)
    board.add(2, received=4, payload_bytes=40)
    assert board.total(SENT, range(3)) == 6
    assert board.total(RECEIVED, [2]) == 4
    assert board.total(PAYLOAD_BYTES, range(3)) == 100
    assert board.total(BATCHES, [0]) == 2


def test_who_is_done_and_whether_to_stop():
    board = Board(2)
    board.finish(0)
    assert board.all_done([0])
    assert not board.all_done([0, 1])
    assert not board.all_done([1])


def test_an_interruption_is_seen():
    board = Board(2)
    seen = [board.interrupted]
    board.interrupt()
    assert [*seen, board.interrupted] == [False, True]
