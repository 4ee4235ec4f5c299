"""Messages in Python alone, as a program without the accelerator has them."""

import pickle
import subprocess
import sys

PROGRAM = """
import pickle, sys
from borzoi.client import Message, ValueMessage, plain_messages
from borzoi.client.messages import Polled, decode_messages
from borzoi.records.message import Message as Record, encode_messages

assert Message is plain_messages.Message and ValueMessage is plain_messages.ValueMessage
_, encoded = encode_messages([Record(b"abc", number) for number in (1, 2, 3)])
polled = Polled.of(4, 9, memoryview(encoded))
assert list(polled) == polled.messages == decode_messages(memoryview(encoded), 4)
assert [(m.partition, m.payload, m.id) for m in polled] == [(4, b"abc", n) for n in (1, 2, 3)]
assert ValueMessage.of(polled[0], 5).value == 5
sys.stdout.buffer.write(pickle.dumps(polled.messages))
"""


def test_they_are_what_a_program_without_the_accelerator_gets() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"BORZOI_ACCELERATOR": "off"},
        capture_output=True,
        check=True,
    )
    # Whoever has the accelerator can read them.
    assert [message.id for message in pickle.loads(said.stdout)] == [1, 2, 3]
