"""The work of one actor on its connection, batch after batch, and what it measures.

::

    producer             send                      latency: the send
    consumer             poll                      latency: a poll that returned messages
    producer + consumer  both at once              latency: now − origin time of the first message
    producing consumer   send, then poll           latency: as above

An actor blocks on its own socket; several share a process as threads.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final

from borzoi.bench.board import RECEIVED, SENT, Board
from borzoi.bench.frames import PolledBatch, PollFrame, SendFrame, send_frames
from borzoi.bench.pacing import Pacer
from borzoi.bench.plan import TOPIC, Actor, Plan
from borzoi.bench.samples import Recorder
from borzoi.client.options import Options, Password
from borzoi.client.transports.dialling import dial
from borzoi.client.transports.interface import Transport
from borzoi.model.errors import RequestTimeout
from borzoi.model.limits import HEADER_BYTES
from borzoi.model.value import Value
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.commands.groups import JoinConsumerGroup
from borzoi.protocol.commands.messages import POLLED_PREFIX
from borzoi.protocol.commands.tokens import LoginWithPersonalAccessToken
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.errors import error_of
from borzoi.protocol.framing import encode_request
from borzoi.records.header import ORIGIN_TIMESTAMP_AT

#: The pause of a consumer between empty polls.
EMPTY_POLL_SECONDS: Final = 0.0005
#: A consumer gives up after this long without messages.
SILENCE_SECONDS_MAX: Final = 30.0
_ORIGIN_AT: Final = POLLED_PREFIX.size + ORIGIN_TIMESTAMP_AT


class LoadConnection:
    """A logged-in connection that exchanges prebuilt frames."""

    def __init__(self, options: Options) -> None:
        self._timeout = options.timeout
        self._transport: Transport = dial(options.addresses[0], options)
        try:
            self._log_in(options)
        except BaseException:
            self.close()
            raise

    def _log_in(self, options: Options) -> None:
        credentials = options.credentials
        if isinstance(credentials, Password):
            self.request(LoginUser(credentials.username, credentials.password))
        elif credentials is not None:
            self.request(LoginWithPersonalAccessToken(credentials.token))

    def request(self, request: Request) -> None:
        self.exchange([encode_request(request)])

    def exchange(self, parts: Sequence[Buffer]) -> bytes | memoryview:
        status, payload = self._transport.exchange(parts, self._timeout)
        if status:
            raise error_of(status)
        return payload

    def poll(self, parts: Sequence[Buffer]) -> PolledBatch:
        payload = self.exchange(parts)
        _, _, count = POLLED_PREFIX.unpack_from(payload)
        size = len(payload) - POLLED_PREFIX.size
        origin = int.from_bytes(payload[_ORIGIN_AT : _ORIGIN_AT + 8], "little") if count else 0
        return PolledBatch(count, size, origin)

    def close(self) -> None:
        self._transport.close()


class Stage(Value):
    """What an actor needs from its run."""

    plan: Plan
    board: Board
    #: Nanoseconds of the monotonic clock at which all actors start.
    start_ns: int
    #: Messages stored before the run, by stream: what a consumer-only run reads.
    available: Mapping[str, int]
    #: The producers of each stream.
    producers: Mapping[str, tuple[int, ...]]


def prepare(actor: Actor, connection: LoadConnection) -> None:
    """Prepare an actor before the clock starts."""
    if actor.group is not None:
        connection.request(JoinConsumerGroup(actor.stream, TOPIC, actor.group))


def act(actor: Actor, connection: LoadConnection, stage: Stage) -> Recorder:
    """Run the actor to its end; return the samples taken after the warm-up."""
    try:
        if actor.produces and actor.consumes:
            return _Alternating(actor, connection, stage).run()
        if actor.produces:
            return _Producing(actor, connection, stage).run()
        return _Consuming(actor, connection, stage).run()
    finally:
        stage.board.finish(actor.number)


class _Acting:
    """The common part of producers and consumers: frames, pace, warm-up and recorder."""

    def __init__(self, actor: Actor, connection: LoadConnection, stage: Stage) -> None:
        self.actor = actor
        self.connection = connection
        self.stage = stage
        self.recorder = Recorder()
        warmup_ns = int(stage.plan.warmup_seconds * 1e9)
        self.measured_from_ns = stage.start_ns + warmup_ns
        self.pacer = Pacer(actor.rate, stage.start_ns)

    def wait_for_start(self) -> None:
        _sleep_until(self.stage.start_ns)

    def paced(self, batch_bytes: int) -> int:
        """Wait for the batch's turn; return the time its latency counts from."""
        intended = self.pacer.intended(time.monotonic_ns(), batch_bytes)
        _sleep_until(intended)
        return intended

    def batches(self, frames: Iterator[SendFrame]) -> Iterator[SendFrame]:
        """The frames of the run, until it is complete or interrupted."""
        for _ in range(self.actor.message_batches):
            if self.stage.board.interrupted:
                return
            yield next(frames)

    def record(
        self, began_ns: int, latency_ns: int, messages: int, payload: int, total: int
    ) -> None:
        now = time.monotonic_ns()
        if began_ns >= self.measured_from_ns:
            self.recorder.rows.append(
                (now - self.measured_from_ns, latency_ns, messages, payload, total)
            )

    def send(self, frame: SendFrame) -> None:
        frame.stamp(time.time_ns() // 1000)
        self.connection.exchange(frame.parts)
        self.stage.board.add(
            self.actor.number, sent=frame.messages_count, payload_bytes=frame.payload_bytes
        )

    def poll(self, frame: PollFrame, offset: int) -> PolledBatch:
        polled = self.connection.poll(frame.at(offset))
        if polled.messages_count:
            payload = polled.total_bytes - polled.messages_count * HEADER_BYTES
            self.stage.board.add(
                self.actor.number, received=polled.messages_count, payload_bytes=payload
            )
        return polled

    def record_polled(self, began_ns: int, latency_ns: int, polled: PolledBatch) -> None:
        payload = polled.total_bytes - polled.messages_count * HEADER_BYTES
        self.record(began_ns, latency_ns, polled.messages_count, payload, polled.total_bytes)


class _Producing(_Acting):
    def run(self) -> Recorder:
        frames = cycle(send_frames(self.actor, self.stage.plan))
        self.wait_for_start()
        while time.monotonic_ns() < self.measured_from_ns and not self.stage.board.interrupted:
            self.send(next(frames))
        self.pacer = Pacer(self.actor.rate, max(self.measured_from_ns, time.monotonic_ns()))
        for frame in self.batches(frames):
            began = self.paced(frame.payload_bytes)
            self.send(frame)
            total = frame.payload_bytes + frame.messages_count * HEADER_BYTES
            latency = time.monotonic_ns() - began
            self.record(began, latency, frame.messages_count, frame.payload_bytes, total)
        return self.recorder


class _Consuming(_Acting):
    def run(self) -> Recorder:
        plan = self.stage.plan
        frame = PollFrame(self.actor, plan.messages_per_batch.most)
        expected = int(plan.messages_per_batch.mean * plan.message_size.mean)
        measures_arrival = plan.kind.produces
        self.wait_for_start()
        offset, began = 0, 0
        is_owed = True
        silence = _Silence()
        while not self.stage.board.interrupted:
            if is_owed:
                began = self.paced(expected)
            asked = time.monotonic_ns() if not self.actor.rate else began
            polled = self.poll(frame, offset)
            is_owed = bool(polled.messages_count)
            if polled.messages_count:
                offset += polled.messages_count
                latency = _age_ns(polled) if measures_arrival else time.monotonic_ns() - asked
                self.record_polled(asked, latency, polled)
                silence.end()
                # Everything may have been read already: avoid an extra poll.
                if not measures_arrival and self._is_done(offset):
                    break
            elif self._is_done(offset):
                break
            else:
                silence.go_on(f"{self.actor.stream}/{TOPIC}")
        return self.recorder

    def _is_done(self, received: int) -> bool:
        """Whether this consumer, or its group, has read everything."""
        stage, actor = self.stage, self.actor
        if actor.members:
            received = stage.board.total(RECEIVED, actor.members)
        producers = stage.producers.get(actor.stream, ())
        if not producers:
            wanted = stage.plan.messages_per_actor * max(1, len(actor.members))
            return received >= min(wanted, stage.available.get(actor.stream, 0))
        return stage.board.all_done(producers) and received >= stage.board.total(SENT, producers)


class _Alternating(_Acting):
    def run(self) -> Recorder:
        plan = self.stage.plan
        frames = cycle(send_frames(self.actor, plan))
        poll = PollFrame(self.actor, plan.messages_per_batch.most)
        grouped = self.actor.group is not None
        self.wait_for_start()
        offset = 0
        for frame in self.batches(frames):
            began = self.paced(frame.payload_bytes)
            self.send(frame)
            # A member of a group may get the batch of another actor.
            wanted = 1 if grouped else frame.messages_count
            silence = _Silence()
            while wanted > 0 and not self.stage.board.interrupted:
                polled = self.poll(poll, offset)
                if not polled.messages_count:
                    if grouped:
                        break
                    silence.go_on(f"{self.actor.stream}/{TOPIC}")
                    continue
                offset += polled.messages_count
                wanted -= polled.messages_count
                self.record_polled(began, _age_ns(polled), polled)
        return self.recorder


class _Silence:
    """Pauses between empty polls, and gives up in the end."""

    def __init__(self) -> None:
        self._since: float | None = None

    def end(self) -> None:
        self._since = None

    def go_on(self, topic: str) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > SILENCE_SECONDS_MAX:
            raise RequestTimeout(
                f"no message from {topic} for {SILENCE_SECONDS_MAX:.0f} s; does it hold as"
                " many as the bench should read?"
            )
        time.sleep(EMPTY_POLL_SECONDS)


def _age_ns(polled: PolledBatch) -> int:
    """Return the age of the first message by this machine's clock; never negative."""
    return max(0, time.time_ns() - polled.origin_timestamp * 1000)


def _sleep_until(moment_ns: int) -> None:
    remaining = moment_ns - time.monotonic_ns()
    if remaining > 0:
        time.sleep(remaining / 1e9)
