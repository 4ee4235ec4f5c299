"""The clients ask for everything, uniquely, and learn from what they are told."""

from random import Random

from borzoi.simulator import operations as ops
from borzoi.simulator.draws import Draw
from borzoi.simulator.simulation import Simulation
from borzoi.simulator.workload import KNOWN_PARTITIONS_MAX, Directory, group_of


def world(**changes):
    return Simulation(Draw(seed=6, replicas=3, clients=3, **changes)).workload


def test_every_operation_is_asked_for_sooner_or_later():
    workload = world(invalid=0.05)
    workload.directory.created([[1, 1], [2, 1]])
    workload.directory.ends = {(1, 1): 9, (2, 1): 4}
    asked = {workload.next_request(workload.clients[0])[1] for _ in range(3000)}
    follow_ups = {ops.PURGE_PARTITION, ops.FORGET_PARTITION}
    assert set(ops.CONTROL) | set(ops.DATA) == asked | follow_ups


def test_no_message_is_ever_sent_twice():
    workload = world(control_share=0.0)
    workload.directory.created([[1, 1]])
    seen: list[bytes] = []
    for number in range(300):
        client = workload.clients[number % 3]
        _, operation, body = workload.next_request(client)
        if operation == ops.SEND_MESSAGES:
            seen += ops.payloads_of(body)
    assert len(seen) == len(set(seen)) > 100


def test_what_is_switched_off_is_not_asked_for():
    workload = world(deletes=0, purges=0, offsets=0, truncates=0)
    workload.directory.created([[1, 1]])
    workload.directory.ends = {(1, 1): 9}
    asked = {workload.next_request(workload.clients[0])[1] for _ in range(1000)}
    assert not asked & {
        ops.DELETE_STREAM,
        ops.PURGE_TOPIC,
        ops.STORE_OFFSET,
        ops.TRUNCATE_PARTITION,
    }


def test_the_directory_remembers_the_newest_partitions():
    directory = Directory()
    assert directory.pick(Random(1)) is None
    directory.created([[number, 1] for number in range(100)])
    assert len(directory.partitions) == KNOWN_PARTITIONS_MAX
    assert directory.pick(Random(1)) in directory.partitions


def test_partitions_are_spread_over_the_groups():
    assert {group_of(namespace, 2) for namespace in range(50)} == {1, 2}
    assert group_of(77, 1) == 1


def test_a_lost_answer_leads_to_another_node():
    simulation = Simulation(
        Draw(seed=6, replicas=3, clients=1, client_timeout=20, loss=0.4, disturb_primary=0)
    )
    simulation.start()
    simulation.advance(1500)
    assert simulation.workload.counts["resend"] > 0
    assert sum(simulation.workload.acknowledged) > 0


def test_a_quiet_workload_asks_for_nothing():
    simulation = Simulation(Draw(seed=6, replicas=3, clients=2, disturb_primary=0))
    simulation.workload.quiet = True
    simulation.start()
    simulation.advance(300)
    assert sum(simulation.workload.acknowledged) == 0
