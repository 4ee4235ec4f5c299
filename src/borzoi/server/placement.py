"""How many shards a server has, and where each of them runs. Pure: the machine is a value.

===================================  ==========================================================
``cpu_allocation``                   shards
===================================  ==========================================================
``auto``                             one for every two cores, where the memory allows it
``all``                              one for each processor
``4``                                four, on the first four processors
``2..6``                             four, on the processors 2, 3, 4 and 5
``numa:auto``                        one for each core of every node, memory from that node
``numa:nodes=0,1;cores=4;no_ht=true``  four for each of two nodes; ``no_ht`` skips hyper-threads
===================================  ==========================================================
"""

import re
from typing import Final, TypeAlias

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.value import Value

KEY: Final = "system.sharding.cpu_allocation"

#: Memory to allow for a busy shard. It takes 30 MiB when it is idle.
AUTO_MEMORY_BYTES: Final = 512 << 20
#: The maximum of `auto`: enough to saturate the network of most machines.
AUTO_SHARDS_MAX: Final = 16

#: Shards are connected each to each, so descriptors grow with the square of their number.
SHARDS_MAX: Final = 128

_NUMBER: Final = re.compile(r"[0-9]{1,5}")
_RANGE: Final = re.compile(r"([0-9]{1,5})\.\.([0-9]{1,5})")


class Cpu(Value):
    """A processor that the server may use."""

    number: int
    #: The NUMA node whose memory is near.
    node: int = 0
    #: The lowest number among the hyper-threads of its core.
    core: int = -1

    @property
    def core_number(self) -> int:
        return self.number if self.core < 0 else self.core


class Topology(Value):
    """The machine as a server sees it."""

    #: The processors that this process may use, by number.
    cpus: tuple[Cpu, ...]
    #: The number of processors of the machine, usable or not.
    machine_count: int
    #: The CPU quota of the container, in processors; None for no limit.
    quota: float | None = None
    #: The memory of the machine or container; None if unknown.
    memory_bytes: int | None = None


class Seat(Value):
    """Where one shard runs; None leaves the choice to the kernel."""

    cpu: int | None = None
    node: int | None = None


class Placement(Value):
    """A seat for each shard, and warnings about it."""

    seats: tuple[Seat, ...]
    warnings: tuple[str, ...] = ()


#: One process, not bound.
ALONE: Final = Placement((Seat(),))


class Automatic(Value):
    """``auto``."""


class Every(Value):
    """``all``."""


class Count(Value):
    """A number of shards."""

    shards: int


class ProcessorRange(Value):
    """Processors by number; `end` is the first one that is not used."""

    first: int
    end: int


class Numa(Value):
    """Processors node by node."""

    #: Empty means every node.
    nodes: tuple[int, ...] = ()
    #: Per node; 0 means all.
    cores: int = 0
    no_ht: bool = True
    automatic: bool = False


Allocation: TypeAlias = Automatic | Every | Count | ProcessorRange | Numa


def parsed_allocation(text: str) -> Allocation:
    """Parse the setting; ValueError if it is invalid."""
    if text == "auto":
        return Automatic()
    if text == "all":
        return Every()
    if _NUMBER.fullmatch(text) and 0 < int(text) <= SHARDS_MAX:
        return Count(int(text))
    if found := _RANGE.fullmatch(text):
        first, end = int(found[1]), int(found[2])
        if 0 < end - first <= SHARDS_MAX:
            return ProcessorRange(first, end)
    if text == "numa:auto":
        return Numa(automatic=True)
    if text.startswith("numa:"):
        return _parsed_numa(text.removeprefix("numa:"))
    raise ValueError(text)


def _parsed_numa(text: str) -> Numa:
    given: dict[str, str] = {}
    for part in text.split(";"):
        name, found, value = part.strip().partition("=")
        if not found or name in given:
            raise ValueError(text)
        given[name] = value.strip()
    nodes = given.pop("nodes", "")
    cores = given.pop("cores", "0")
    no_ht = given.pop("no_ht", "true").lower()
    numbers = nodes.split(",") if nodes else []
    if given or no_ht not in ("true", "false"):
        raise ValueError(text)
    if not all(_NUMBER.fullmatch(number) for number in (*numbers, cores)):
        raise ValueError(text)
    chosen = tuple(dict.fromkeys(int(number) for number in numbers))
    return Numa(chosen, int(cores), no_ht == "true")


def placed(text: str, topology: Topology) -> Placement:
    """Return a seat for each shard that the setting requests."""
    match parsed_allocation(text):
        case Automatic():
            placement = Placement((Seat(),) * automatic_count(topology))
        case Every():
            placement = _within_quota([Seat(cpu.number) for cpu in topology.cpus], topology)
        case Count(shards):
            placement = _counted(shards, topology)
        case ProcessorRange() as chosen:
            placement = _ranged(chosen, topology)
        case Numa() as chosen:
            seats = _numa_seats(chosen, topology)
            placement = (
                _within_quota(seats, topology) if chosen.automatic else Placement(tuple(seats))
            )
    return _bounded(placement)


def automatic_count(topology: Topology) -> int:
    """Use half of the cores: the kernel, threads for syncs and passwords, and often the clients
    need the others. The shards are not bound, because other programs may run on the machine."""
    cores = len({cpu.core_number for cpu in topology.cpus})
    limits = [cores // 2, AUTO_SHARDS_MAX]
    if topology.quota is not None:
        limits.append(int(topology.quota) // 2)
    if topology.memory_bytes is not None:
        limits.append(topology.memory_bytes // AUTO_MEMORY_BYTES)
    return max(min(limits), 1)


def _within_quota(seats: list[Seat], topology: Topology) -> Placement:
    """Limit the shards to the CPU quota of the container.

    They are not bound: every container of the machine would choose the same processors.
    """
    quota = topology.quota
    if quota is None or quota >= len(seats):
        return Placement(tuple(seats))
    return Placement((Seat(),) * max(int(quota), 1))


def _counted(shards: int, topology: Topology) -> Placement:
    if shards == 1:
        return ALONE
    if shards > len(topology.cpus):
        warning = f"{KEY}: {shards} shards share {_processors(len(topology.cpus))}"
        return Placement((Seat(),) * shards, (warning,))
    if topology.quota is not None and topology.quota < shards:
        warning = f"{KEY}: {shards} shards share a quota of {topology.quota:g} processors"
        return Placement((Seat(),) * shards, (warning,))
    return Placement(tuple(Seat(cpu.number) for cpu in topology.cpus[:shards]))


def _ranged(chosen: ProcessorRange, topology: Topology) -> Placement:
    if chosen.end > topology.machine_count:
        raise InvalidConfiguration(
            f"{KEY}: {chosen.first}..{chosen.end} is not allowed; the machine has"
            f" {_processors(topology.machine_count)}, so it ends at {topology.machine_count}"
        )
    usable = {cpu.number for cpu in topology.cpus}
    wanted = range(chosen.first, chosen.end)
    foreign = [str(number) for number in wanted if number not in usable]
    seats = tuple(Seat(number if number in usable else None) for number in wanted)
    if not foreign:
        return Placement(seats)
    warning = f"{KEY}: this process may not run on processor {', '.join(foreign)}"
    return Placement(seats, (warning,))


def _numa_seats(chosen: Numa, topology: Topology) -> list[Seat]:
    cpus_of_node: dict[int, list[Cpu]] = {}
    for cpu in topology.cpus:
        cpus_of_node.setdefault(cpu.node, []).append(cpu)
    there = sorted(cpus_of_node)
    seats = []
    for node in chosen.nodes or there:
        if node not in cpus_of_node:
            raise InvalidConfiguration(
                f"{KEY}: there is no node {node} with processors that this process may use;"
                f" there are {', '.join(map(str, there))}"
            )
        cpus = _one_of_each_core(cpus_of_node[node]) if chosen.no_ht else cpus_of_node[node]
        if chosen.cores > len(cpus):
            raise InvalidConfiguration(
                f"{KEY}: cores={chosen.cores} is not allowed; node {node} has {len(cpus)}"
                " that this process may use"
            )
        # With one node all memory is local.
        near = node if len(there) > 1 else None
        seats += [Seat(cpu.number, near) for cpu in cpus[: chosen.cores or None]]
    return seats


def _one_of_each_core(cpus: list[Cpu]) -> list[Cpu]:
    first_of_core: dict[int, Cpu] = {}
    for cpu in cpus:
        first_of_core.setdefault(cpu.core_number, cpu)
    return list(first_of_core.values())


def _bounded(placement: Placement) -> Placement:
    if len(placement.seats) <= SHARDS_MAX:
        return placement
    warning = f"{KEY}: starting {SHARDS_MAX} shards, not {len(placement.seats)}"
    return Placement(placement.seats[:SHARDS_MAX], (*placement.warnings, warning))


def _processors(count: int) -> str:
    return "1 processor" if count == 1 else f"{count} processors"
