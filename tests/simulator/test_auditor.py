"""The auditor objects to what must not happen, and to nothing else."""

from types import SimpleNamespace
from typing import Any

import pytest

from borzoi.consensus.effects import Applied
from borzoi.consensus.frames import root, seal_prepare
from borzoi.consensus.messages import Operation, Prepare, PrepareOk, StartViewChange
from borzoi.consensus.quorum import quorums
from borzoi.protocol.commands.streams import CreateStream
from borzoi.simulator.auditor import Auditor, Violation
from borzoi.simulator.operations import INVALID_COMMAND, control, control_answer

CLUSTER = bytes(range(16))
CLIENT = (7).to_bytes(16, "little")
CREATE, BODY = control(CreateStream("s"))
CREATED = control_answer(0, [])


def auditor() -> Auditor:
    return Auditor(3, 2, quorums(3))


def prepare(op: int, parent: bytes, **changes) -> Prepare:
    values = {
        "op": op, "parent": parent, "view": 1, "timestamp": op, "operation": Operation.NOOP.value,
    }  # fmt: skip
    return seal_prepare(root(CLUSTER, 0)._replace(**{**values, **changes}))


def commit(audit: Auditor, header: Prepare, body=b"", payload=b"", replica=0, copies=(0, 1)):
    for holder in copies:
        audit.synced(holder, 0, header.checksum)
    audit.applied(replica, 0, Applied(header.op, header, body, 0, payload))


FIRST = prepare(1, root(CLUSTER, 0).checksum)


def test_the_same_op_everywhere_is_fine():
    audit = auditor()
    for replica in range(3):
        commit(audit, FIRST, replica=replica)
    assert audit.counters["commits"] == 1


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        (prepare(1, FIRST.parent, view=2), "commit agreement"),
        (prepare(3, FIRST.checksum), "commit agreement"),
        (prepare(2, FIRST.parent), "commit agreement"),
        (prepare(2, FIRST.checksum, view=0), "commit agreement"),
        (prepare(2, FIRST.checksum, timestamp=0), "commit agreement"),
    ],
)
def test_a_log_that_is_not_one_log_is_refused(second, kind):
    audit = auditor()
    commit(audit, FIRST)
    with pytest.raises(Violation) as caught:
        commit(audit, second, replica=1)
    assert caught.value.kind == kind


def test_an_op_on_too_few_disks_is_not_committed():
    with pytest.raises(Violation, match="copies") as caught:
        commit(auditor(), FIRST, copies=(0,))
    assert caught.value.kind == "durability"


def test_another_answer_is_a_divergence():
    audit = auditor()
    header = prepare(1, FIRST.parent, operation=CREATE)
    commit(audit, header, BODY, CREATED)
    with pytest.raises(Violation, match="answers"):
        commit(audit, header, BODY, control_answer(1, []), replica=1)


def test_an_answer_the_shadow_did_not_predict_is_refused():
    header = prepare(1, FIRST.parent, operation=CREATE)
    with pytest.raises(Violation, match="predicted"):
        commit(auditor(), header, BODY, control_answer(4, []))


def test_a_request_is_an_op_once():
    audit = auditor()
    values = {"client": CLIENT, "request": 5, "operation": CREATE}
    first = prepare(1, FIRST.parent, **values)
    commit(audit, first, BODY, CREATED)
    with pytest.raises(Violation) as caught:
        commit(audit, prepare(2, first.checksum, **values), BODY, b"")
    assert caught.value.kind == "at most once"


def registered(*, issued_in_epoch: int) -> tuple[Auditor, Prepare]:
    """A client that has registered, and has issued request 9 in this epoch."""
    audit = auditor()
    audit.issued[0, CLIENT, 9] = issued_in_epoch
    register = prepare(1, FIRST.parent, client=CLIENT, operation=Operation.REGISTER.value)
    commit(audit, register)
    return audit, register


def test_a_zombies_request_after_the_new_session_is_noticed():
    audit, register = registered(issued_in_epoch=1)
    again = prepare(2, register.checksum, client=CLIENT, operation=Operation.REGISTER.value)
    commit(audit, again)
    late = prepare(3, again.checksum, client=CLIENT, request=9, operation=CREATE)
    with pytest.raises(Violation, match="epoch 1"):
        commit(audit, late, BODY, CREATED)


def test_an_answer_without_an_op_is_a_lost_ack():
    with pytest.raises(Violation, match="never committed"):
        auditor().replied(0, CLIENT, 1, 0, b"")


def test_a_request_refused_as_invalid_needs_no_op():
    audit = auditor()
    assert audit.replied(0, CLIENT, 1, INVALID_COMMAND, b"") is None
    assert audit.counters["replies"] == 0


def test_a_session_that_was_ended_may_be_unknown_but_its_zombies_are_still_zombies():
    audit, register = registered(issued_in_epoch=0)
    end = prepare(2, register.checksum, client=CLIENT, operation=Operation.UNREGISTER.value)
    commit(audit, end)
    audit.forgotten(0, CLIENT, 4, 2)
    late = prepare(3, end.checksum, client=CLIENT, request=9, operation=CREATE)
    with pytest.raises(Violation, match="epoch 0"):
        commit(audit, late, BODY, CREATED)


def test_reads_show_what_was_acknowledged_before_them():
    audit = auditor()
    commit(audit, FIRST)
    audit.read(0, "lease", 1, 1, 0)
    audit.read(0, "prefix", 0, 1, 0)
    with pytest.raises(Violation, match="not committed"):
        audit.read(0, "prefix", 2, 0, 0)
    with pytest.raises(Violation, match="acknowledged before"):
        audit.read(0, "linearizable", 0, 1, 0)


def test_a_view_has_one_leader():
    audit = auditor()
    audit.started_view(1, 0, 4)
    audit.started_view(1, 0, 4)
    with pytest.raises(Violation, match="two leaders"):
        audit.started_view(2, 0, 4)
    assert audit.counters["view_changes"] == 1


def test_a_session_is_forgotten_only_where_sessions_are_many():
    audit = auditor()
    audit.groups[0].epochs[CLIENT] = audit.groups[0].registered[CLIENT] = 3
    with pytest.raises(Violation, match="forgot"):
        audit.forgotten(0, CLIENT, 4, 3)
    audit.forgotten(0, CLIENT, 4, 2)
    audit.forgotten(0, CLIENT, 0, 3)


@pytest.mark.parametrize(
    ("wiped", "back", "kind"),
    [(False, 1, "view discipline"), (True, 1, "durability"), (True, 2, "view discipline")],
)
def test_only_a_lost_disk_may_acknowledge_in_the_view_before_the_one_it_had_entered(
    wiped, back, kind
):
    """With nothing durable here, whatever passes the views is refused for that."""
    audit = auditor()
    replica: Any = SimpleNamespace(group=1)
    volume: Any = SimpleNamespace(newest=lambda: None)
    entered = StartViewChange(*FIRST[:4], 5, 0, 11, 2, 1)
    ack = PrepareOk(*FIRST[:4], 5 - back, 1, 7, 2, *FIRST[9:11], 1, 0, 0, 0, 0, 1)
    with pytest.raises(Violation, match="durable"):
        audit.sent(2, replica, volume, entered)
    if wiped:
        audit.wiped(2)
    with pytest.raises(Violation) as caught:
        audit.sent(2, replica, volume, ack)
    assert caught.value.kind == kind
