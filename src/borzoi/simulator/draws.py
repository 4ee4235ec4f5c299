"""Swarm draws: what kind of cluster, what kind of trouble and what kind of load a seed means.

Every seed switches whole kinds of faults and of operations on or off. Leaving features out finds
more than mixing all of them always: a run without restarts lets views grow old, a run without
deletes lets logs grow long. Every field is a plain number, so that `--set name=value` can override
each of them and a failing seed can be kept together with its draw.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

from msgspec.structs import asdict, fields, replace

from borzoi.model.value import Value
from borzoi.simulator.events import TICKS_PER_SECOND
from borzoi.simulator.network import NetworkFaults
from borzoi.simulator.randomness import happens, stream

REPLICAS: Final = (1, 2, 3, 3, 3, 4, 5, 6)


class Draw(Value):
    """One seed spelled out. Intervals are means in ticks; 0 switches the kind off."""

    seed: int = 0
    # the cluster
    replicas: int = 3
    data_groups: int = 1
    pipeline_max: int = 8
    fast_timeouts: int = 1
    checkpoint_ops: int = 48
    checkpoint_bytes: int = 0
    checkpoint_ticks: int = 0
    retained_ops: int = 32
    client_table_max: int = 64
    # Requests that may wait at a primary for room in its pipeline.
    request_queue_max: int = 64
    # 1 starts on empty disks with replica n - 1 away: genesis waits for all replicas.
    # With 2 a replica also dies and comes back meanwhile.
    genesis: int = 0
    # how long
    safety_ticks: int = 60 * TICKS_PER_SECOND
    liveness_ticks: int = 60 * TICKS_PER_SECOND
    core_all: int = 1
    # network
    delay_min: int = 0
    delay_mean: float = 1.0
    fifo: int = 1
    loss: float = 0.0
    duplication: float = 0.0
    duplicate_delay: int = 0
    link_capacity: int = 64
    clogging: float = 0.0
    clog_ticks_mean: int = 0
    datagrams: int = 0
    corruption: float = 0.0
    strangers_every: int = 0
    partition_every: int = 0
    partition_stable: int = 100
    one_way: int = 0
    command_filters: int = 0
    # processes
    crash_every: int = 0
    crash_many: int = 0
    crash_inside_input: int = 0
    restart_max: int = 300
    pause_every: int = 0
    pause_max: int = 300
    slow_replica: int = 0
    slow_factor: int = 10
    # frames a tick that one replica finds time for; 0 is no limit
    slow_cpu: int = 0
    handover_every: int = 0
    # A replica that is asked to hand over may not be the primary.
    handover_anyone: int = 0
    # two releases in one cluster: replicas come back as the newer one, which knows more operations
    upgrade_every: int = 0
    disturb_primary: int = 1
    # disks
    sync_min: int = 1
    sync_max: int = 3
    sync_slow: float = 0.0
    sync_error_every: int = 0
    disk_full_every: int = 0
    rot_every: int = 0
    # 1 aims at the newest records and at the copies of their headers too
    rot_deep: int = 0
    wipe_every: int = 0
    stale_reads: float = 0.0
    lost_writes: float = 0.0
    # clocks
    clock_skew_us: int = 0
    clock_drift: int = 0
    clock_jump_every: int = 0
    # clients
    clients: int = 4
    think_ticks: int = 20
    client_timeout: int = 200
    resend_duplicates: float = 0.0
    zombies: float = 0.0
    dead_clients: float = 0.0
    invalid: float = 0.0
    # a client that uses a request number for two requests
    reused_requests: float = 0.0
    # retention: truncations that a node asks for itself, without a session
    housekeeping: float = 0.0
    reads: float = 0.0
    idle_every: int = 0
    control_share: float = 0.3
    deletes: int = 1
    purges: int = 1
    offsets: int = 1
    truncates: int = 1
    payload_max: int = 64
    segment_bytes: int = 1 << 20
    chunk_bytes: int = 256 * 1024
    # share of requests that a node passes on to the leader instead of refusing them
    forwarding: float = 0.0
    # fidelity: 1 encodes every frame and record to bytes and back
    full: int = 0

    def network(self) -> NetworkFaults:
        return NetworkFaults(
            delay_min=self.delay_min,
            delay_mean=self.delay_mean,
            fifo=bool(self.fifo),
            loss=self.loss,
            duplication=self.duplication,
            duplicate_delay=self.duplicate_delay,
            capacity=self.link_capacity,
            clogging=self.clogging,
            clog_ticks_mean=self.clog_ticks_mean,
            datagrams=bool(self.datagrams),
            corruption=self.corruption,
        )

    def changed(self, **changes: float) -> "Draw":
        return replace(self, **changes)

    def line(self) -> str:
        """The draw as `--set` would take it; fields at their default are left out."""
        shown = [f"seed={self.seed}"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "seed" and value != field.default:
                shown.append(
                    f"{field.name}={value:g}"
                    if isinstance(value, float)
                    else f"{field.name}={value}"
                )
        return " ".join(shown)

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


KINDS: Final = {field.name: field.type for field in fields(Draw)}


class UnknownSetting(ValueError):
    """`--set` named a field that a draw does not have, or gave it something but a number."""


def parse_settings(settings: tuple[str, ...]) -> dict[str, float]:
    """`("replicas=5", "loss=0.1")` as a mapping with the type each field has."""
    parsed: dict[str, float] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in KINDS:
            raise UnknownSetting(f"{setting!r}: write name=value with a name of the draw")
        try:
            parsed[name] = float(text) if KINDS[name] in ("float", float) else int(text)
        except ValueError as error:
            raise UnknownSetting(f"{setting!r}: {text!r} is not a number") from error
    return parsed


def draw(seed: int, settings: Mapping[str, float] | None = None) -> Draw:
    """Return what `seed` means; `settings` override afterwards, so they shift no other draw."""
    random = stream(seed, "draw")
    chosen: dict[str, float] = {"seed": seed}
    _draw_cluster(random, chosen)
    _draw_network(random, chosen)
    _draw_processes(random, chosen)
    _draw_disks(random, chosen)
    _draw_clocks(random, chosen)
    _draw_clients(random, chosen)
    _draw_files(random, chosen)
    _draw_rarities(random, chosen)
    _draw_extremes(random, chosen)
    chosen.update(settings or {})
    return Draw(**chosen)  # type: ignore[arg-type]


def _draw_cluster(random: Random, chosen: dict[str, float]) -> None:
    chosen["replicas"] = random.choice(REPLICAS)
    chosen["data_groups"] = random.choice((1, 1, 1, 2))
    chosen["pipeline_max"] = random.choice((1, 2, 4, 8, 16, 32))
    chosen["fast_timeouts"] = int(happens(random, 0.75))
    chosen["checkpoint_ops"] = random.choice((16, 32, 64, 256))
    # Retention below what a minute of load produces is what forces state transfer.
    chosen["retained_ops"] = random.choice((32, 32, 64, 1024))
    chosen["client_table_max"] = random.choice((4, 16, 64, 64))
    chosen["core_all"] = int(happens(random, 0.5))
    chosen["safety_ticks"] = TICKS_PER_SECOND * random.choice((30, 45, 60, 60, 90))


def _draw_network(random: Random, chosen: dict[str, float]) -> None:
    chosen["delay_min"] = random.choice((0, 0, 1, 3))
    chosen["delay_mean"] = random.choice((0.0, 1.0, 1.0, 2.0, 5.0, 10.0))
    chosen["fifo"] = int(happens(random, 0.3))
    chosen["datagrams"] = int(happens(random, 0.3))
    if happens(random, 0.5):
        chosen["loss"] = round(random.random() * 0.3, 3)
    if happens(random, 0.4):
        chosen["duplication"] = round(random.random() * 0.5, 3)
        chosen["duplicate_delay"] = random.choice((10, 100, 1000, 3000))
    if happens(random, 0.3):
        chosen["link_capacity"] = random.randint(2, 64)
    if happens(random, 0.3):
        chosen["clogging"] = round(random.random() * 0.02, 4)
        chosen["clog_ticks_mean"] = random.randint(10, 500)
    if happens(random, 0.5):
        chosen["partition_every"] = random.choice((300, 600, 1200, 2400))
        chosen["partition_stable"] = random.choice((20, 100, 300, 800))
        chosen["one_way"] = int(happens(random, 0.4))
        chosen["command_filters"] = int(happens(random, 0.3))


def _draw_processes(random: Random, chosen: dict[str, float]) -> None:
    if happens(random, 0.65):
        chosen["crash_every"] = random.choice((150, 400, 1000, 2500))
        chosen["crash_many"] = int(happens(random, 0.5))
        chosen["crash_inside_input"] = int(happens(random, 0.5))
        chosen["restart_max"] = random.choice((10, 100, 500, 3000))
    if happens(random, 0.35):
        chosen["pause_every"] = random.choice((300, 1000, 2500))
        chosen["pause_max"] = random.choice((50, 300, 1500))
    if happens(random, 0.2):
        chosen["slow_replica"] = 1
        chosen["slow_factor"] = random.choice((10, 30, 100))


def _draw_disks(random: Random, chosen: dict[str, float]) -> None:
    chosen["sync_max"] = random.choice((1, 2, 5, 20))
    if happens(random, 0.3):
        chosen["sync_slow"] = round(random.random() * 0.01, 4)
    if happens(random, 0.2):
        chosen["sync_error_every"] = random.choice((1000, 3000))
    if happens(random, 0.15):
        chosen["disk_full_every"] = random.choice((1500, 4000))
    trouble = random.random()
    # Wiped disks and rotten records stay apart: together they can take both copies of an op where
    # q_r is 2, which is more than the promise covers.
    if trouble < 0.35:
        chosen["rot_every"] = random.choice((30, 100, 400))
    elif trouble < 0.6 and chosen["replicas"] >= 3:
        chosen["wipe_every"] = random.choice((800, 2000))


def _draw_clocks(random: Random, chosen: dict[str, float]) -> None:
    if happens(random, 0.3):
        chosen["clock_skew_us"] = random.choice((50_000, 2_000_000, 30_000_000))
    if happens(random, 0.3):
        chosen["clock_drift"] = random.choice((5, 20, 50))
    if happens(random, 0.2):
        chosen["clock_jump_every"] = random.choice((500, 2000))


def _draw_clients(random: Random, chosen: dict[str, float]) -> None:
    chosen["clients"] = random.randint(1, 8)
    chosen["think_ticks"] = random.choice((5, 20, 50, 100))
    chosen["client_timeout"] = random.choice((50, 200, 500))
    if happens(random, 0.4):
        chosen["resend_duplicates"] = round(random.random() * 0.3, 3)
    if happens(random, 0.3):
        chosen["zombies"] = 0.02
    if happens(random, 0.3):
        chosen["dead_clients"] = 0.005
    if happens(random, 0.4):
        chosen["invalid"] = 0.05
    if happens(random, 0.6):
        chosen["reads"] = round(random.random() * 0.4, 3)
    if happens(random, 0.15):
        chosen["idle_every"] = random.choice((1000, 3000))
    chosen["control_share"] = random.choice((0.05, 0.2, 0.5, 1.0))
    for kind in ("deletes", "purges", "offsets", "truncates"):
        chosen[kind] = int(happens(random, 0.6))
    chosen["payload_max"] = random.choice((16, 64, 400))


def _draw_files(random: Random, chosen: dict[str, float]) -> None:
    # Small segments are truncated and transferred one by one, small chunks make a transfer long.
    chosen["segment_bytes"] = random.choice((256, 1024, 1 << 20))
    chosen["chunk_bytes"] = random.choice((512, 4096, 256 * 1024))


def _draw_rarities(random: Random, chosen: dict[str, float]) -> None:
    chosen["genesis"] = int(happens(random, 0.05))
    if happens(random, 0.2):
        chosen["corruption"] = round(random.random() * 0.02, 4)
    if happens(random, 0.2):
        chosen["strangers_every"] = random.choice((20, 200))
    if happens(random, 0.3):
        chosen["forwarding"] = round(random.random(), 2)
    if happens(random, 0.15):
        chosen["handover_every"] = random.choice((400, 2000))
    if happens(random, 0.15):
        chosen["upgrade_every"] = random.choice((200, 600, 2000))
    if happens(random, 0.15):
        chosen["slow_cpu"] = random.choice((1, 2, 4))
    # A record that cannot be read now counts as spoiled until it is repaired: see `_draw_disks`.
    if happens(random, 0.25) and not chosen.get("wipe_every"):
        chosen["stale_reads"] = random.choice((0.01, 0.1))
    if happens(random, 0.2) and not chosen.get("wipe_every"):
        chosen["lost_writes"] = random.choice((0.002, 0.02))
    if happens(random, 0.1) and chosen["replicas"] > 2:
        # An absent replica misses more than the others keep: only a state transfer brings it back.
        chosen.update(checkpoint_ops=16, retained_ops=32, clients=8, think_ticks=5)
        chosen.update(crash_every=2500, crash_many=0, restart_max=3000, control_share=0.2)
        chosen.update(pipeline_max=8, client_timeout=50, slow_replica=0, pause_every=0, sync_max=2)
    if happens(random, 0.2):
        chosen["checkpoint_bytes"] = random.choice((4096, 16384))
    if happens(random, 0.2):
        chosen["checkpoint_ticks"] = random.choice((300, 1500))


def _draw_extremes(random: Random, chosen: dict[str, float]) -> None:
    """What most clusters never see: queues that fill up, transfers cut short, damaged spares."""
    if happens(random, 0.15):
        chosen["request_queue_max"] = random.choice((1, 2, 4))
    if happens(random, 0.2):
        chosen["housekeeping"] = 0.05
    if happens(random, 0.2):
        chosen["reused_requests"] = 0.05
    chosen["rot_deep"] = int(happens(random, 0.5))
    chosen["handover_anyone"] = int(happens(random, 0.5))
    if happens(random, 0.07) and chosen["replicas"] > 2:
        # A replica that comes too late to be counted has lost its disk: see `_draw_disks`.
        chosen["genesis"] = 2
    extreme = random.random()
    if extreme < 0.06 and chosen["replicas"] > 2:
        # A disk so slow that hundreds of writes wait for it while the others go on.
        chosen.update(clients=16, think_ticks=1, client_timeout=500, pipeline_max=32)
        chosen.update(delay_min=0, delay_mean=0.0, link_capacity=64, loss=0.02, slow_cpu=0)
        chosen.update(sync_max=2, slow_replica=1, slow_factor=300, safety_ticks=3000)
        chosen.update(partition_every=0, clogging=0.0, pause_every=0, request_queue_max=64)
        chosen.update(crash_every=1000, crash_many=0, restart_max=100)
    elif extreme < 0.14 and chosen["replicas"] > 2:
        # Transfers onto a slow disk, while the views go by; small ones, large ones are drawn above.
        chosen.update(checkpoint_ops=16, retained_ops=32, clients=6, think_ticks=5, pipeline_max=8)
        chosen.update(crash_every=1000, crash_many=0, restart_max=1500, pause_every=0)
        chosen.update(control_share=0.2, client_timeout=50, payload_max=16, chunk_bytes=4096)
        chosen.update(slow_replica=1, slow_factor=30, sync_max=2, fast_timeouts=1)
        chosen.update(partition_every=400, partition_stable=150, loss=0.05, safety_ticks=4500)
