"""The requests of the clients: a weighted mix over all operations of both planes.

Names are few and are deleted and created again, so numbers get reused. Message payloads are unique
over the run (`client:number`), so a message that shows up twice or nowhere is visible.
"""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Final

from borzoi.consensus.data_plane import group_of
from borzoi.consensus.messages import Operation
from borzoi.consensus.partition_ops import propose_batch
from borzoi.metadata.commands import Command
from borzoi.metadata.groups import JoinGroup, LeaveGroup
from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)
from borzoi.metadata.users import root_creation
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.topics import Compression
from borzoi.model.users import GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.tokens import DeletePersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser
from borzoi.simulator import operations as ops
from borzoi.simulator.draws import Draw
from borzoi.simulator.randomness import happens

STREAM_NAMES: Final = ("orders", "events", "audit", "trades", "metrics", "logs", "mail", "geo")
TOPIC_NAMES: Final = ("eu", "us", "asia", "test", "main")
GROUP_NAMES: Final = ("billing", "search")
USER_NAMES: Final = ("root", "alice", "bob", "carol")
TOKEN_NAMES: Final = ("ci", "phone")
KNOWN_PARTITIONS_MAX: Final = 24

# Group, operation, body.
Request = tuple[int, int, bytes]


class Directory:
    """What the clients together know of the control plane, from answers they got."""

    def __init__(self) -> None:
        self.partitions: list[tuple[int, int]] = []
        # Messages acknowledged so far: at least as many are there.
        self.ends: dict[tuple[int, int], int] = {}

    def created(self, partitions: Iterable[ops.PartitionRow]) -> None:
        self.partitions += [(one.namespace, one.incarnation) for one in partitions]
        del self.partitions[:-KNOWN_PARTITIONS_MAX]

    def pick(self, random: Random) -> tuple[int, int] | None:
        # Mostly recent ones; an old one now and then, which may be deleted meanwhile.
        if not self.partitions:
            return None
        if happens(random, 0.85):
            return random.choice(self.partitions[-4:])
        return random.choice(self.partitions)


class Mix:
    """Draws requests; operations that a draw disables are not requested."""

    def __init__(self, draw: Draw, random: Random, counts: Counter[str]) -> None:
        self.draw = draw
        self.random = random
        self.counts = counts
        self.directory = Directory()
        self._messages = 0

    def next_request(self, sender: int) -> Request:
        partition = self.directory.pick(self.random)
        if happens(self.random, self.draw.invalid):
            self.counts["invalid request"] += 1
            return self._invalid(partition)
        if partition is None or happens(self.random, self.draw.control_share):
            return (0, *ops.control(self._control(bare=partition is None)))
        return self._data(sender, *partition)

    def group(self, namespace: int) -> int:
        return group_of(namespace, self.draw.data_groups)

    def _invalid(self, partition: tuple[int, int] | None) -> Request:
        random = self.random
        if partition is None or happens(random, 0.5):
            bodies = (b"", b"\xc1", b"\x92\x01\x80", b"\x92\x09\x80")
            return 0, random.choice((*ops.CONTROL, 250)), random.choice(bodies)
        group = self.group(partition[0])
        command = ops.data_body(*partition, 1 << 40)
        batch = ops.send_body(*partition, [b"never"])
        return group, *random.choice(
            (
                (Operation.STORE_CONSUMER_OFFSET, command),
                (Operation.DELETE_SEGMENTS, command),
                (Operation.TRUNCATE_PARTITION, command[:-1]),
                (Operation.SEND_MESSAGES, batch[:40]),
                (Operation.SEND_MESSAGES, batch[:-1]),
                (Operation.SEND_MESSAGES, propose_batch(*partition, 2, batch[64:])),
                (Operation.SEND_MESSAGES, propose_batch(*partition, 1, b"\xff" * 64)),
                (Operation.SEND_MESSAGES, propose_batch(*partition, 0, b"")),
            )
        )

    # -- the control plane -------------------------------------------------------------------------

    def _control(self, *, bare: bool) -> Command:
        random = self.random
        stream, topic = self._stream(), self._topic()
        roll = random.random()
        if roll < 0.25 or (bare and roll < 0.4):
            return CreateStream(random.choice(STREAM_NAMES))
        if roll < 0.55 or bare:
            return self._create_topic(stream)
        if roll < 0.62:
            return CreatePartitions(stream, topic, random.randint(1, 2))
        if roll < 0.70:
            return self._group_command(stream, topic)
        if roll < 0.76:
            return self._user_command()
        if roll < 0.80:
            return self._update(stream, topic)
        if roll < 0.92 and self.draw.deletes:
            return random.choice(
                (
                    DeleteStream(stream),
                    DeleteTopic(stream, topic),
                    DeletePartitions(stream, topic, 1),
                )
            )
        if self.draw.purges:
            return random.choice((PurgeStream(stream), PurgeTopic(stream, topic)))
        return CreateStream(random.choice(STREAM_NAMES))

    def _stream(self) -> Identifier:
        return self._named(STREAM_NAMES)

    def _topic(self) -> Identifier:
        return self._named(TOPIC_NAMES)

    def _named(self, names: tuple[str, ...]) -> Identifier:
        """Mostly by name; by number now and then, which may have a new meaning meanwhile."""
        if happens(self.random, 0.2):
            return self.random.randrange(len(names))
        return self.random.choice(names)

    def _create_topic(self, stream: Identifier) -> CreateTopic:
        random = self.random
        return CreateTopic(
            stream,
            random.choice(TOPIC_NAMES),
            random.randint(1, 3),
            message_expiry=NEVER,
            max_topic_size=UNLIMITED,
            replication_factor=1,
        )

    def _group_command(self, stream: Identifier, topic: Identifier) -> Command:
        random = self.random
        name = random.choice(GROUP_NAMES)
        place = (random.randrange(4), random.randrange(3), random.randrange(2))
        return random.choice(
            (
                CreateConsumerGroup(stream, topic, name),
                DeleteConsumerGroup(stream, topic, name),
                JoinGroup(*place, random.randrange(4)),
                LeaveGroup(*place, random.randrange(4)),
            )
        )

    def _user_command(self) -> Command:
        random = self.random
        name, token = random.choice(USER_NAMES), random.choice(TOKEN_NAMES)
        secret = f"hash-{random.randrange(1 << 30)}"
        if name == USER_NAMES[0]:
            return root_creation(name, secret)
        may = Permissions(GlobalPermissions(read_streams=True))
        return random.choice(
            (
                SealedCreateUser(name, secret, permissions=may),
                UpdateUser(name, status=random.choice(tuple(UserStatus))),
                DeleteUser(name),
                SealedChangePassword(name, secret),
                UpdatePermissions(name, may),
                SealedCreatePersonalAccessToken(token, secret),
                DeletePersonalAccessToken(token),
            )
        )

    def _update(self, stream: Identifier, topic: Identifier) -> Command:
        random = self.random
        if happens(random, 0.5):
            return UpdateStream(stream, random.choice(STREAM_NAMES))
        name = random.choice(TOPIC_NAMES)
        return UpdateTopic(stream, topic, name, Compression.NONE, NEVER, UNLIMITED, 1)

    # -- the data plane ----------------------------------------------------------------------------

    def _data(self, sender: int, namespace: int, incarnation: int) -> Request:
        random = self.random
        group = self.group(namespace)
        end = self.directory.ends.get((namespace, incarnation), 0)
        roll = random.random()
        if roll < 0.15 and self.draw.offsets and end:
            consumer = random.randrange(3)
            if happens(random, 0.2):
                body = ops.data_body(namespace, incarnation, 0, consumer)
                return group, Operation.DELETE_CONSUMER_OFFSET, body
            body = ops.data_body(namespace, incarnation, random.randrange(end), consumer)
            return group, Operation.STORE_CONSUMER_OFFSET, body
        if roll < 0.2 and self.draw.truncates and end:
            body = ops.data_body(namespace, incarnation, random.randrange(end))
            return group, Operation.TRUNCATE_PARTITION, body
        payloads = []
        for _ in range(random.randint(1, 3)):
            self._messages += 1
            unique = f"{sender}:{self._messages}|".encode()
            payloads.append(unique + b"x" * random.randrange(self.draw.payload_max))
        return group, Operation.SEND_MESSAGES, ops.send_body(namespace, incarnation, payloads)
