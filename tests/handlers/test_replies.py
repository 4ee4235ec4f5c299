from borzoi.handlers.replies import DONE, failed, ok


def test_errors_carry_no_payload_and_answers_carry_their_length() -> None:
    assert bytes(8) == DONE
    assert failed(1009) == (1009).to_bytes(4, "little") + bytes(4)
    assert ok(b"abc") == bytes(4) + b"\x03\0\0\0abc"
