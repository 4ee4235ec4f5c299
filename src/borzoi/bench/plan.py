"""The plan of a run: the kinds of load, their options, and the resulting actors. Pure.

A kind says which actors there are and how they share streams, partitions and groups. `actors_of`
assigns streams, partitions, groups, batches and rate; nothing else looks at the kind.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

from msgspec.structs import replace

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.limits import HEADER_BYTES, PAYLOAD_BYTES_MAX
from borzoi.model.value import Value

TOPIC: Final = "topic-1"
#: No bench needs more, and a typo should not start a million threads.
ACTORS_MAX: Final = 1024


class Role(Enum):
    """What an actor does."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    PRODUCING_CONSUMER = "producing_consumer"


class Span(Value):
    """One number, or a range to draw from."""

    least: int
    most: int

    @property
    def is_fixed(self) -> bool:
        return self.least == self.most

    @property
    def mean(self) -> float:
        return (self.least + self.most) / 2

    def __str__(self) -> str:
        return str(self.least) if self.is_fixed else f"{self.least}..{self.most}"


def span_of(text: str, name: str, *, least: int = 1, most: int = PAYLOAD_BYTES_MAX) -> Span:
    """A number or ``min..max``."""
    low, dots, high = text.partition("..")
    try:
        span = Span(int(low), int(high if dots else low))
    except ValueError:
        span = Span(0, -1)
    if not least <= span.least <= span.most <= most:
        raise InvalidConfiguration(
            f"{name} is {text!r}; allowed are a number or a range MIN..MAX from {least} to {most}"
        )
    return span


class LoadKind(Value):
    """One way to load a server."""

    name: str
    alias: str
    summary: str
    produces: bool = False
    consumes: bool = False
    #: Each actor sends and polls in turn.
    alternates: bool = False
    #: Consumers belong to groups; producers spread batches over the partitions.
    balanced: bool = False
    streams: int | None = None
    partitions: int = 1

    @property
    def json_name(self) -> str:
        return self.name.replace("-", "_")


# fmt: off
KINDS: Final = (
    LoadKind("pinned-producer", "pp", "each producer has its own stream", produces=True),
    LoadKind("pinned-consumer", "pc", "each consumer reads its own stream", consumes=True),
    LoadKind("pinned-producer-and-consumer", "ppc", "producers and consumers concurrently",
         produces=True, consumes=True),
    LoadKind("balanced-producer", "bp", "producers spread over partitions",
         produces=True, balanced=True, streams=1, partitions=24),
    LoadKind("balanced-consumer-group", "bcg", "consumers in groups",
         consumes=True, balanced=True, streams=1, partitions=24),
    LoadKind("balanced-producer-and-consumer-group", "bpcg", "producers, and consumers in groups",
         produces=True, consumes=True, balanced=True, streams=1, partitions=24),
    LoadKind("end-to-end-producing-consumer", "e2e", "each actor sends a batch, then polls it",
         produces=True, consumes=True, alternates=True, streams=8),
    LoadKind("end-to-end-producing-consumer-group", "e2ecg", "the same through groups",
         produces=True, consumes=True, alternates=True, balanced=True, streams=1, partitions=24),
)
# fmt: on
KIND_BY_NAME: Final = {name: kind for kind in KINDS for name in (kind.name, kind.alias)}


class Plan(Value):
    """A whole run."""

    kind: LoadKind
    producers: int = 8
    consumers: int = 8
    streams: int = 8
    partitions: int = 1
    groups: int = 0
    message_size: Span = Span(1000, 1000)
    messages_per_batch: Span = Span(1000, 1000)
    #: Per actor.
    message_batches: int = 1000
    #: Bytes a second over all actors; 0 for as fast as possible.
    rate_limit: int = 0
    read_amplification: float = 1.05
    warmup_seconds: float = 0.0
    sampling_seconds: float = 0.01
    moving_average_window: int = 20
    max_topic_size: str = "server_default"
    message_expiry: str = "server_default"
    reuse_streams: bool = False

    @property
    def creates_streams(self) -> bool:
        return self.kind.produces and not self.reuse_streams

    @property
    def actors_count(self) -> int:
        if self.kind.alternates:
            return max(self.producers, self.consumers)
        return self.producers + self.consumers

    @property
    def batch_bytes(self) -> float:
        """Mean payload bytes of a batch."""
        return self.message_size.mean * self.messages_per_batch.mean

    @property
    def messages_per_actor(self) -> int:
        return int(self.message_batches * self.messages_per_batch.mean)


def filling(plan: Plan) -> Plan:
    """What writes the messages that the consumers of a plan read."""
    kind = KIND_BY_NAME["bp" if plan.kind.balanced else "pp"]
    producers = plan.consumers if plan.kind.balanced else plan.streams
    return replace(
        plan,
        kind=kind,
        producers=producers,
        consumers=0,
        groups=0,
        rate_limit=0,
        warmup_seconds=0.0,
    )


def batches_for(total_bytes: int, plan: Plan) -> int:
    """Batches per actor that add up to the total; each actor sends at least one."""
    return max(1, round(total_bytes / (plan.batch_bytes * max(1, plan.actors_count))))


def check(plan: Plan) -> None:
    """Raises `InvalidConfiguration` for a combination that cannot run."""
    for problem in _problems(plan):
        raise InvalidConfiguration(problem)


def _problems(plan: Plan) -> Iterator[str]:
    kind, streams = plan.kind, plan.streams
    name = kind.name
    if not 1 <= plan.actors_count <= ACTORS_MAX:
        yield f"{name} would have {plan.actors_count} actors; 1 to {ACTORS_MAX} are allowed"
    if plan.message_batches < 1:
        yield f"--message-batches is {plan.message_batches}; at least 1 is needed"
    if plan.rate_limit < 0:
        yield f"--rate-limit is {plan.rate_limit}; 0 means none, else it is bytes a second"
    if not kind.balanced and not kind.alternates:
        actors = plan.producers if kind.produces else plan.consumers
        if streams != actors:
            yield f"{name} needs as many streams as actors: {streams} streams for {actors}"
        if kind.produces and kind.consumes and plan.partitions != 1:
            yield f"{name} needs 1 partition a stream, not {plan.partitions}"
    if kind.balanced and kind.consumes and plan.groups < streams:
        yield f"{name} needs a consumer group for each stream: {plan.groups} for {streams}"
    grouped_at_once = kind.balanced and kind.produces and kind.consumes and not kind.alternates
    if grouped_at_once and plan.partitions < plan.consumers:
        yield f"{name} needs a partition for each consumer: {plan.partitions} partitions"
    if kind.alternates and streams > plan.actors_count:
        yield f"{name} has {streams} streams for {plan.actors_count} actors; no more than those"


class Actor(Value):
    """One connection and what it does."""

    #: Its index among all actors, from 0.
    number: int
    role: Role
    #: Its number among the actors of its role, from 1.
    id: int
    stream: str
    #: None for a balanced producer and for a member of a group.
    partition: int | None
    group: str | None = None
    produces: bool = True
    consumes: bool = False
    message_batches: int = 0
    #: Payload bytes a second; 0 for as fast as possible.
    rate: float = 0.0
    #: Actors of the same group, itself included; they share its messages.
    members: tuple[int, ...] = ()


def stream_name(number: int) -> str:
    return f"bench-stream-{number}"


def group_name(number: int) -> str:
    return f"cg-{number}"


def partitions_of(plan: Plan) -> int:
    """Return the partitions of each topic. Alternating actors that share a stream have one each."""
    if plan.kind.alternates and not plan.kind.balanced:
        return -(-plan.actors_count // plan.streams)
    return plan.partitions


def actors_of(plan: Plan) -> list[Actor]:
    """All actors of the run, producers first."""
    rate = plan.rate_limit / max(1, plan.actors_count)
    if plan.kind.alternates:
        return _with_members(
            [_alternating(plan, number, rate) for number in range(plan.actors_count)]
        )
    producers = [
        Actor(
            number=number,
            role=Role.PRODUCER,
            id=number + 1,
            stream=stream_name(number % plan.streams + 1),
            partition=None if plan.kind.balanced else 0,
            message_batches=plan.message_batches,
            rate=rate,
        )
        for number in range(plan.producers)
    ]
    both = plan.kind.produces and plan.kind.consumes
    read_rate = rate * plan.read_amplification if both else rate
    consumers = [
        _consumer(plan, plan.producers + number, number, read_rate)
        for number in range(plan.consumers)
    ]
    return _with_members(producers + consumers)


def _consumer(plan: Plan, number: int, index: int, rate: float) -> Actor:
    balanced = plan.kind.balanced
    group = index % plan.groups + 1 if balanced else 0
    stream = (group - 1) % plan.streams + 1 if balanced else index % plan.streams + 1
    return Actor(
        number=number,
        role=Role.CONSUMER,
        id=index + 1,
        stream=stream_name(stream),
        partition=None if balanced else 0,
        group=group_name(group) if balanced else None,
        produces=False,
        consumes=True,
        message_batches=plan.message_batches,
        rate=rate,
    )


def _alternating(plan: Plan, number: int, rate: float) -> Actor:
    balanced = plan.kind.balanced
    consumes = number < plan.consumers if balanced else True
    group = number % plan.groups + 1 if balanced else 0
    stream = (group - 1) % plan.streams if balanced else number % plan.streams
    return Actor(
        number=number,
        role=Role.PRODUCING_CONSUMER,
        id=number + 1,
        stream=stream_name(stream + 1),
        partition=None if balanced else number // plan.streams,
        group=group_name(group) if balanced and consumes else None,
        produces=number < plan.producers,
        consumes=consumes,
        message_batches=plan.message_batches,
        rate=rate,
    )


def _with_members(actors: list[Actor]) -> list[Actor]:
    members: dict[str, tuple[int, ...]] = {}
    for actor in actors:
        if actor.group is not None:
            members[actor.group] = (*members.get(actor.group, ()), actor.number)
    return [
        actor if actor.group is None else replace(actor, members=members[actor.group])
        for actor in actors
    ]


def volume_bytes(plan: Plan) -> float:
    """Payload bytes that all actors move."""
    return plan.batch_bytes * plan.message_batches * plan.actors_count


def frame_bytes(plan: Plan) -> int:
    """Bytes of a mean batch on the wire, its headers included."""
    return int(plan.batch_bytes + plan.messages_per_batch.mean * (HEADER_BYTES + 16))
