"""The log as a whole under random schedules, with each of its rules removed in turn; and in plain
cases that can be read."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest
from tests.support.object_log_schedules import run_schedules

from borzoi.objectstore import object_log
from borzoi.objectstore.creating import Taken, create_once
from borzoi.objectstore.errors import ObjectStoreError
from borzoi.objectstore.headers import HEADER_BYTES
from borzoi.objectstore.log_opening import Opener
from borzoi.objectstore.object_log import ObjectLog

#: A share of the tier `object`, which plays 5,000; the tier `deep` plays 100,000.
SCHEDULES = int(os.environ.get("BORZOI_OBJECT_LOG_SCHEDULES", "1000"))
DEEP_SCHEDULES = 100_000
#: Every rule's absence shows well before this many.
MUTATED_SCHEDULES = 20_000


def faults_of(seeds: range) -> dict[int, list[str]]:
    return {
        seed: outcome.faults for seed, outcome in run_schedules(seeds).items() if outcome.faults
    }


def test_nothing_acknowledged_is_lost_doubled_or_moved() -> None:
    outcomes = run_schedules(range(SCHEDULES))
    assert {seed: outcome.faults for seed, outcome in outcomes.items() if outcome.faults} == {}
    assert sum(outcome.acknowledged for outcome in outcomes.values()) > 4 * SCHEDULES
    assert sum(outcome.epochs > 3 for outcome in outcomes.values()) > SCHEDULES // 2
    assert sum(outcome.late > 0 for outcome in outcomes.values()) > SCHEDULES // 4


@pytest.mark.deep
def test_the_same_over_many_more_schedules() -> None:
    assert faults_of(range(SCHEDULES, SCHEDULES + DEEP_SCHEDULES)) == {}


def test_a_schedule_is_a_function_of_its_seed() -> None:
    assert run_schedules(range(50)) == run_schedules(range(50))


# Each rule removed: the schedules must notice. ----------------------------------------------------


async def without_nonce(store, key, data, **keywords) -> None:
    """Takes its own object for another's, unless it was created by the first attempt."""
    try:
        await store.create(key, data)
    except ObjectStoreError:
        try:
            found = bytes(await store.get_range(key, 0, HEADER_BYTES))
        except ObjectStoreError:
            await create_once(store, key, data, **keywords)
        else:
            raise Taken(key, found) from None


def acknowledged_at_once(self: ObjectLog, sequence: int) -> None:
    self._confirmed.add(sequence)
    ack = self._acks.pop(sequence)
    ack.set_result(sequence)
    while self._committed in self._confirmed:
        self._confirmed.remove(self._committed)
        self._committed += 1
    self._start()


MUTATIONS = {
    "nonce": [(object_log, "create_once", without_nonce)],
    "in order": [(ObjectLog, "_confirm", acknowledged_at_once)],
    "jump": [(Opener, "_jump", lambda _: 1)],
    "permanent fences": [(ObjectLog, "_is_trimmed", lambda *_: True)],
    "trimming below checkpoints": [(ObjectLog, "_trim_end", lambda log: log.committed)],
    "stable base": [(Opener, "_is_stable", lambda *_: True)],
    "stable base, only compared with the fence": [
        (
            Opener,
            "_is_stable",
            lambda _, base, newest, fence: newest is None or fence >= newest.next_sequence,
        )
    ],
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, attribute, replacement in MUTATIONS[name]:
            stack.enter_context(patch.object(owner, attribute, replacement))
        yield


@pytest.mark.parametrize("name", MUTATIONS)
def test_without_this_rule_it_fails(name: str) -> None:
    with mutated(name):
        for first in range(0, MUTATED_SCHEDULES, 250):
            if faults_of(range(first, first + 250)):
                return
    pytest.fail(f"{MUTATED_SCHEDULES} schedules went well without the rule {name!r}")
