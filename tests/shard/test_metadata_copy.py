"""The copy of the metadata when its writer is replaced, or differs."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.shard.test_metadata_copies import Shard, copy, joined, prepared, until, writer
from tests.support.shards import linked

from borzoi.metadata.groups import JoinGroup
from borzoi.metadata.machine import Entry
from borzoi.metadata.proposals import Proposal
from borzoi.model.errors import BorzoiError, ShardUnavailable
from borzoi.protocol.commands.streams import CreateStream
from borzoi.shard.bus import Bus, Letter
from borzoi.shard.envelopes import Subject
from borzoi.shard.links import Links
from borzoi.shard.metadata_copies import encode_entry
from borzoi.shard.metadata_copy import MetadataCopy


async def closed(*shards: Shard) -> None:
    for shard in shards:
        shard.metadata.close()
        shard.bus.close()
        shard.bus.links.close()


async def test_a_copy_waits_for_a_writer_that_starts_late(tmp_path: Path) -> None:
    first, second = (Bus(links) for links in linked(2))
    starting = asyncio.ensure_future(copy(second))
    await asyncio.sleep(0.02)
    assert not starting.done()
    original = writer(tmp_path, first)
    shard = await starting
    await shard.metadata.submit(Proposal(CreateStream("s"), 0))
    assert shard.digest == original.digest
    await closed(original, shard)


async def test_a_copy_begins_again_with_the_state_of_a_new_writer(tmp_path: Path) -> None:
    """The old one logged an entry that it did not send, and it had members."""
    buses = [Bus(links) for links in linked(3)]
    shards = [writer(tmp_path / "old", buses[0]), await copy(buses[1]), await copy(buses[2])]
    await prepared(shards)
    await shards[1].metadata.submit(Proposal(JoinGroup(0, 0, 0, 7), 0))
    revision = shards[1].metadata.revision
    old_state = shards[1].metadata.state
    await closed(shards[0])
    await until(lambda: not buses[1].is_there(0))
    pending = asyncio.ensure_future(shards[1].metadata.submit(Proposal(CreateStream("new"), 0)))

    new = writer(tmp_path / "new", Bus(Links(0, 3, os.memfd_create("arena", os.MFD_CLOEXEC))))
    joined(new, shards[1])
    joined(new, shards[2])
    await pending
    assert {shard.digest for shard in (new, *shards[1:])} == {new.digest}
    assert shards[1].follow[0][0] is old_state
    assert shards[1].metadata.revision > revision, "prepared requests are prepared again"
    assert not shards[1].metadata.state.memberships
    await closed(new, *shards[1:])


async def test_a_proposal_that_the_writer_had_in_hand_fails_when_it_dies(tmp_path: Path) -> None:
    first, second = (Bus(links) for links in linked(2))
    shards = [writer(tmp_path, first), await copy(second)]
    hangs = asyncio.get_running_loop().create_future()
    first.answer(Subject.PROPOSAL, lambda _: hangs)
    pending = asyncio.ensure_future(shards[1].metadata.submit(Proposal(CreateStream("s"), 0)))
    await until(lambda: first._exchanges[1]._running)
    second.links.on_peer_lost(0)
    with pytest.raises(ShardUnavailable):
        await pending
    await closed(*shards)


async def test_a_copy_that_refuses_an_entry_takes_the_state_again(tmp_path: Path, caplog) -> None:
    first, second = (Bus(links) for links in linked(2))
    shards = [writer(tmp_path, first), await copy(second)]
    await shards[1].metadata.submit(Proposal(CreateStream("s"), 0))
    entry = encode_entry(Entry(1, 0, CreateStream("s")))
    with pytest.raises(BorzoiError):
        await first.request(1, Subject.ENTRY, Letter(entry), urgent=True)
    await until(lambda: shards[1].follow)
    assert shards[0].digest == shards[1].digest
    assert isinstance(shards[1].metadata, MetadataCopy)
    await shards[1].metadata.submit(Proposal(CreateStream("t"), 0))
    await closed(*shards)
