import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.placement import (
    AUTO_MEMORY_BYTES,
    AUTO_SHARDS_MAX,
    SHARDS_MAX,
    Automatic,
    Count,
    Cpu,
    Every,
    Numa,
    Placement,
    ProcessorRange,
    Seat,
    Topology,
    automatic_count,
    parsed_allocation,
    placed,
)
from borzoi.server.settings import Settings


def machine(nodes: int, cores: int, *, threads: int = 1, quota: float | None = None) -> Topology:
    """The usual numbering: first one thread of every core, node by node, then their siblings."""
    physical = nodes * cores
    cpus = tuple(
        Cpu(thread * physical + core, core // cores, core)
        for thread in range(threads)
        for core in range(physical)
    )
    return Topology(cpus, len(cpus), quota)


def restricted(topology: Topology, *usable: int) -> Topology:
    cpus = tuple(cpu for cpu in topology.cpus if cpu.number in usable)
    return Topology(cpus, topology.machine_count, topology.quota)


def cpus_of(placement: Placement) -> list[int | None]:
    return [seat.cpu for seat in placement.seats]


LAPTOP = machine(1, 4, threads=2)
TWO_NODES = machine(2, 4, threads=2)
FOUR_NODES = machine(4, 2)


@pytest.mark.parametrize(
    ("text", "allocation"),
    [
        ("auto", Automatic()),
        ("all", Every()),
        ("1", Count(1)),
        (str(SHARDS_MAX), Count(SHARDS_MAX)),
        ("0..4", ProcessorRange(0, 4)),
        ("numa:auto", Numa(automatic=True)),
        ("numa:nodes=0,1;cores=4;no_ht=true", Numa((0, 1), 4)),
        ("numa:nodes=1,1,0", Numa((1, 0))),
        ("numa:cores=2; no_ht=FALSE", Numa(cores=2, no_ht=False)),
        ("numa:nodes=", Numa()),
    ],
)
def test_every_way_to_say_it_is_understood(text: str, allocation: object) -> None:
    assert parsed_allocation(text) == allocation


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "-1", "1.5", "some", "ALL", str(SHARDS_MAX + 1), "999999", "4..4", "4..2", "..4",
        "0..", "0..1000", "0...4", "numa:", "numa:off", "numa:nodes=a", "numa:cores=-1",
        "numa:cores=1;cores=2", "numa:sockets=1", "numa:no_ht=perhaps", "numa:nodes=0,", "\u0664",
        "numa:cores=",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        parsed_allocation(text)


@given(st.text(alphabet="alnum:odesc=0123.,;_ht", max_size=30))
def test_text_is_understood_or_refused(text: str) -> None:
    try:
        parsed_allocation(text)
    except ValueError:
        return
    placed_or_refused(text)


def placed_or_refused(text: str) -> None:
    try:
        assert placed(text, TWO_NODES).seats
    except InvalidConfiguration as fault:
        assert str(fault).startswith("system.sharding.cpu_allocation: ")  # noqa: PT017


# ---- auto ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "shards"),
    [
        (machine(1, 1), 1),
        (machine(1, 2, threads=2), 1),
        (machine(1, 3), 1),
        (machine(1, 4), 2),
        (machine(1, 4, threads=2), 2),
        (machine(1, 8, threads=2), 4),
        (machine(2, 16), AUTO_SHARDS_MAX),
        (machine(4, 16), AUTO_SHARDS_MAX),
        (machine(1, 32, quota=4.0), 2),
        (machine(1, 32, quota=1.5), 1),
        (restricted(machine(1, 8, threads=2), 0, 8, 1, 9), 1),
    ],
)
def test_auto_takes_half_of_the_cores_and_binds_nothing(topology: Topology, shards: int) -> None:
    assert placed("auto", topology) == Placement((Seat(),) * shards)


def test_unless_told_a_server_uses_several_cores_of_a_large_machine_only() -> None:
    default = Settings().system.sharding.cpu_allocation
    assert len(placed(default, machine(1, 2)).seats) == 1
    assert len(placed(default, machine(2, 8)).seats) == 8


def test_auto_leaves_each_shard_some_memory() -> None:
    big = machine(1, 16)
    for memory, shards in ((AUTO_MEMORY_BYTES // 2, 1), (3 * AUTO_MEMORY_BYTES, 3), (1 << 40, 8)):
        topology = Topology(big.cpus, big.machine_count, None, memory)
        assert automatic_count(topology) == shards


# ---- all and a number ---------------------------------------------------------------------------


def test_all_is_one_shard_for_each_processor() -> None:
    assert cpus_of(placed("all", LAPTOP)) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert cpus_of(placed("all", restricted(LAPTOP, 2, 5))) == [2, 5]


def test_a_single_shard_is_never_bound_to_a_processor() -> None:
    assert placed("1", LAPTOP).seats == (Seat(),)


def test_a_number_takes_the_first_processors_there_are() -> None:
    assert cpus_of(placed("3", LAPTOP)) == [0, 1, 2]
    assert cpus_of(placed("3", restricted(LAPTOP, 1, 4, 6, 7))) == [1, 4, 6]


def test_more_shards_than_processors_share_them() -> None:
    placement = placed("3", machine(1, 2))
    assert placement.seats == (Seat(),) * 3
    assert placement.warnings == ("system.sharding.cpu_allocation: 3 shards share 2 processors",)
    assert "1 processor" in placed("2", machine(1, 1)).warnings[0]


def test_a_container_with_little_time_gets_few_shards_that_are_not_bound() -> None:
    host = machine(1, 16, quota=2.5)
    assert placed("all", host).seats == (Seat(), Seat())
    assert placed("numa:auto", host).seats == (Seat(), Seat())
    assert placed("all", machine(1, 16, quota=0.5)).seats == (Seat(),)
    assert cpus_of(placed("all", machine(1, 2, quota=8.0))) == [0, 1]


def test_a_number_is_taken_at_its_word_in_a_container() -> None:
    placement = placed("4", machine(1, 16, quota=2.0))
    assert placement.seats == (Seat(),) * 4
    assert placement.warnings == (
        "system.sharding.cpu_allocation: 4 shards share a quota of 2 processors",
    )
    assert cpus_of(placed("2", machine(1, 16, quota=2.0))) == [0, 1]


def test_there_is_an_upper_bound() -> None:
    placement = placed("all", machine(2, SHARDS_MAX))
    assert len(placement.seats) == SHARDS_MAX
    assert placement.warnings == ("system.sharding.cpu_allocation: starting 128 shards, not 256",)


# ---- ranges -------------------------------------------------------------------------------------


def test_a_range_names_processors() -> None:
    assert cpus_of(placed("2..5", LAPTOP)) == [2, 3, 4]
    assert cpus_of(placed("3..4", LAPTOP)) == [3]


def test_a_range_ends_with_the_machine() -> None:
    with pytest.raises(InvalidConfiguration, match=r"4\.\.9 is not allowed.*8 processors"):
        placed("4..9", LAPTOP)
    assert cpus_of(placed("4..8", LAPTOP)) == [4, 5, 6, 7]


def test_processors_of_a_range_that_are_not_ours_leave_the_choice_to_the_kernel() -> None:
    placement = placed("0..4", restricted(LAPTOP, 2, 3))
    assert cpus_of(placement) == [None, None, 2, 3]
    assert placement.warnings == (
        "system.sharding.cpu_allocation: this process may not run on processor 0, 1",
    )


# ---- nodes --------------------------------------------------------------------------------------


def test_auto_takes_one_thread_of_each_core_of_every_node() -> None:
    placement = placed("numa:auto", TWO_NODES)
    assert placement.seats == tuple(Seat(cpu, cpu // 4) for cpu in range(8))
    assert [seat.node for seat in placed("numa:auto", FOUR_NODES).seats] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_with_one_node_no_memory_is_near_or_far() -> None:
    assert placed("numa:auto", LAPTOP).seats == tuple(Seat(cpu) for cpu in range(4))


def test_nodes_cores_and_threads_can_be_chosen() -> None:
    assert placed("numa:nodes=1;cores=2", TWO_NODES).seats == (Seat(4, 1), Seat(5, 1))
    assert cpus_of(placed("numa:nodes=1;no_ht=false", TWO_NODES)) == [4, 5, 6, 7, 12, 13, 14, 15]
    assert cpus_of(placed("numa:nodes=3,0;cores=1", FOUR_NODES)) == [6, 0]
    assert cpus_of(placed("numa:cores=1", FOUR_NODES)) == [0, 2, 4, 6]


def test_a_core_whose_first_thread_is_not_ours_is_used_by_its_second() -> None:
    assert cpus_of(placed("numa:auto", restricted(TWO_NODES, 1, 8, 9, 14))) == [1, 8, 14]


def test_nodes_of_different_size_give_what_they_have() -> None:
    holes = restricted(TWO_NODES, 0, 1, 2, 5)
    assert cpus_of(placed("numa:auto", holes)) == [0, 1, 2, 5]
    with pytest.raises(InvalidConfiguration, match=r"cores=2 is not allowed; node 1 has 1"):
        placed("numa:cores=2", holes)


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match=r"no node 2 .*there are 0, 1$"):
        placed("numa:nodes=0,2", TWO_NODES)
    with pytest.raises(InvalidConfiguration, match=r"no node 1"):
        placed("numa:nodes=1", restricted(TWO_NODES, 0, 1))


def test_what_was_named_in_a_container_is_taken_at_its_word() -> None:
    assert len(placed("numa:cores=4", machine(1, 8, quota=2.0)).seats) == 4


@given(
    st.sampled_from(["all", "numa:auto", "numa:no_ht=false", "2", "5"]),
    st.sets(st.integers(0, 15), min_size=1),
)
def test_no_two_shards_are_bound_to_one_processor(text: str, usable: set[int]) -> None:
    topology = restricted(TWO_NODES, *usable)
    bound = [cpu for cpu in cpus_of(placed(text, topology)) if cpu is not None]
    assert len(bound) == len(set(bound))
    assert set(bound) <= usable


def test_a_processor_of_which_nothing_is_known_is_its_own_core() -> None:
    assert Cpu(3).core_number == 3
    assert Cpu(7, 0, 3).core_number == 3
