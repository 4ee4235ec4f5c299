from borzoi.metadata.groups import ClientGone
from borzoi.metadata.proposals import Proposal
from borzoi.model.errors import GroupNotFound, ShardUnavailable
from borzoi.shard import leaving
from borzoi.shard.leaving import leave_groups


async def test_a_client_that_is_gone_leaves_however_often_it_takes(monkeypatch, caplog):
    monkeypatch.setattr(leaving, "LEAVE_AGAIN_SECONDS", 0.0)
    asked = []

    async def submit(proposal: Proposal) -> None:
        asked.append(proposal)
        if len(asked) < 3:
            raise ShardUnavailable("away")

    await leave_groups(submit, 7)
    assert [one.command for one in asked] == [ClientGone(7)] * 3
    asked.clear()
    await leave_groups(submit, 7, lambda: False)
    assert len(asked) == 1, "another client has its number by now"

    async def refuse(_: Proposal) -> None:
        raise GroupNotFound("no group")

    await leave_groups(refuse, 7)
    assert "no group" in caplog.text
