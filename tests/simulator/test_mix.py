"""The mix asks for everything, uniquely, and for nothing that is switched off."""

from collections import Counter
from random import Random

from borzoi.consensus.data_plane import group_of
from borzoi.consensus.messages import Operation
from borzoi.simulator import operations as ops
from borzoi.simulator.draws import Draw
from borzoi.simulator.mix import KNOWN_PARTITIONS_MAX, Directory, Mix

ROWS = [ops.PartitionRow(1, 1, 0), ops.PartitionRow(2, 1, 0)]


def mix(**changes):
    made = Mix(Draw(seed=6, **changes), Random(6), Counter())
    made.directory.created(ROWS)
    made.directory.ends = {(1, 1): 9, (2, 1): 4}
    return made


def test_every_operation_is_asked_for_sooner_or_later():
    one = mix(invalid=0.05)
    asked = {one.next_request(1)[1] for _ in range(9000)}
    follow_ups = {Operation.PURGE_PARTITION, Operation.FORGET_PARTITION}
    assert set(ops.CONTROL) | set(ops.DATA) <= asked | follow_ups


def test_no_message_is_ever_sent_twice():
    one = mix(control_share=0.0)
    seen: list[bytes] = []
    for number in range(300):
        _, operation, body = one.next_request(number % 3)
        if operation == Operation.SEND_MESSAGES:
            seen += ops.payloads_of(body)
    assert len(seen) == len(set(seen)) > 100


def test_what_is_switched_off_is_not_asked_for():
    one = mix(deletes=0, purges=0, offsets=0, truncates=0)
    asked = {one.next_request(1)[1] for _ in range(1000)}
    assert not asked & {
        Operation.DELETE_STREAM,
        Operation.PURGE_TOPIC,
        Operation.STORE_CONSUMER_OFFSET,
        Operation.TRUNCATE_PARTITION,
    }


def test_the_directory_remembers_the_newest_partitions():
    directory = Directory()
    assert directory.pick(Random(1)) is None
    directory.created([ops.PartitionRow(number, 1, 0) for number in range(100)])
    assert len(directory.partitions) == KNOWN_PARTITIONS_MAX
    assert directory.pick(Random(1)) in directory.partitions


def test_partitions_are_spread_over_the_groups():
    one = mix(data_groups=2)
    assert {one.group(namespace) for namespace in range(50)} == {1, 2}
    assert group_of(77, 1) == 1
