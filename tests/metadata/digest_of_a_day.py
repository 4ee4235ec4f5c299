"""Applies a day's worth of seeded commands and prints what became of the state.

Run by `test_machine` as a process of its own, under several hash seeds: the digest must not depend
on the order in which Python happens to walk through a set.
"""

import random

from borzoi.metadata import snapshot
from borzoi.metadata.groups import (
    ClientGone,
    CompleteRevocation,
    ExpireRevocations,
    JoinGroup,
    LeaveGroup,
)
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.sealed import SealedCreatePersonalAccessToken, SealedCreateUser
from borzoi.metadata.state import Metadata
from borzoi.metadata.tokens import ExpireTokens
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.metadata.users import root_creation
from borzoi.model.errors import BorzoiError
from borzoi.model.users import Permissions, StreamPermissions, TopicPermissions
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions

DEFAULTS = TopicDefaults(segment_size=1024)
NAMES = ("anna", "bert", "cleo", "dora")


def permissions(draw: random.Random) -> Permissions:
    ids = draw.sample(range(4), 3)
    topics = {number: TopicPermissions(read_topic=True) for number in ids}
    return Permissions(streams={number: StreamPermissions(topics=topics) for number in ids})


def command(draw: random.Random):
    number, other, client = draw.randrange(3), draw.randrange(3), draw.randrange(12)
    name = draw.choice(NAMES)
    makers = (
        (2, lambda: CreateStream(name)),
        (1, lambda: DeleteStream(name)),
        (6, lambda: resolved(CreateTopic(number, name, draw.randrange(7)), DEFAULTS)),
        (1, lambda: DeleteTopic(number, name)),
        (2, lambda: CreatePartitions(number, other, 2)),
        (2, lambda: DeletePartitions(number, other, 1)),
        (6, lambda: CreateConsumerGroup(number, other, name)),
        (1, lambda: DeleteConsumerGroup(number, other, name)),
        (2, lambda: SealedCreateUser(name, "hash", permissions=permissions(draw))),
        (1, lambda: UpdatePermissions(name, permissions(draw))),
        (1, lambda: DeleteUser(name)),
        (2, lambda: SealedCreatePersonalAccessToken(name, str(draw.random()), draw.randrange(900))),
        (1, lambda: ExpireTokens(draw.randrange(900))),
        (20, lambda: JoinGroup(number, other, draw.randrange(2), client)),
        (4, lambda: LeaveGroup(number, other, draw.randrange(2), client)),
        (2, lambda: ClientGone(client)),
        (9, lambda: CompleteRevocation(number, other, draw.randrange(2), draw.randrange(7))),
        (1, lambda: ExpireRevocations(draw.randrange(3000))),
    )
    weights = [weight for weight, _ in makers]
    return draw.choices([make for _, make in makers], weights)[0]()


def day(seed: int) -> tuple[str, int]:
    """The digest of the state, and how many commands were accepted."""
    draw, state, accepted = random.Random(seed), Metadata(), 0
    apply(state, Entry(0, 0, root_creation("root", "hash")))
    for at in range(3000):
        try:
            apply(state, Entry(at, draw.randrange(3), command(draw)))
            accepted += 1
        except BorzoiError:
            pass
    state.check()
    return snapshot.digest(state, members=True), accepted


if __name__ == "__main__":
    print(*day(seed=7))
