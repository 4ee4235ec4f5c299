"""How each planted bug is found; `planting` says what it changes.

A checker that never objects proves nothing. So every planted bug must be found: by a search over a
bounded number of seeds of the swarm (sometimes with the draw narrowed to where the rule matters),
or by a scripted scenario where random trouble would need too long.
"""

from collections.abc import Callable, Mapping
from time import process_time
from typing import Final

import msgspec

from borzoi.model.value import Value
from borzoi.simulator import scenarios
from borzoi.simulator.draws import draw
from borzoi.simulator.outcome import Failure
from borzoi.simulator.planting import plant
from borzoi.simulator.simulation import Simulation

SEEDS_MAX: Final = 60
Scenario = Callable[[tuple[str, ...]], Failure | None]


class Planted(Value):
    """One bug: the rule it breaks, and where to look for the damage."""

    name: str
    rule: str
    settings: Mapping[str, float] = msgspec.field(default_factory=dict)
    seeds: int = SEEDS_MAX
    scenario: Scenario | None = None
    # Another bug that is planted as well, where a second rule covers for the first.
    together: tuple[str, ...] = ()


class Detection(Value):
    """Which checker objected, and after how many runs; `seed` None means a scripted scenario."""

    name: str
    rule: str
    failure: Failure | None
    seed: int | None
    tried: int
    seconds: float
    # Where its script is, if it is not one of the simulator.
    script: str = ""

    def line(self) -> str:
        where = "scenario" if self.seed is None else f"seed {self.seed}"
        if self.script:
            return (
                f"{self.name:<36} {self.rule:<14} {'its own test':<18} {'script':<10}"
                f" {self.tried:>3} tried {self.seconds:6.1f} s  {self.script}"
            )
        what = self.failure.kind if self.failure is not None else "NOT FOUND"
        return (
            f"{self.name:<36} {self.rule:<14} {what:<18} {where:<10}"
            f" {self.tried:>3} tried {self.seconds:6.1f} s"
        )


SMALL: Final = {"replicas": 3, "clients": 4, "think_ticks": 10, "safety_ticks": 3000}
FAST: Final = {**SMALL, "fast_timeouts": 1}
CRASHES: Final = {**FAST, "crash_every": 150, "crash_many": 1, "restart_max": 100, "loss": 0.1}
SPLITS: Final = {**FAST, "partition_every": 200, "partition_stable": 150}
ROT: Final = {**CRASHES, "rot_every": 20, "wipe_every": 0, "crash_every": 120}
BOTH: Final = {**SPLITS, "crash_every": 200, "crash_many": 1, "partition_every": 100}
WIPES: Final = {**CRASHES, "wipe_every": 200, "rot_every": 0}
CHECKPOINTS: Final = {**CRASHES, "checkpoint_ops": 16, "retained_ops": 32}

PURGED: Final = {**CHECKPOINTS, "control_share": 0.3, "purges": 1, "segment_bytes": 256}

PLANTED: Final = (
    Planted("view_not_persisted", "P9, S1", FAST),
    Planted("suffix_not_persisted", "P8", CRASHES),
    Planted("ack_before_fsync", "P4, P11", FAST),
    Planted("ack_before_superblock", "S1", FAST),
    Planted("ack_skips_hole", "M5, N5", {**CRASHES, "loss": 0.25}),
    Planted("own_ack_before_fsync", "N3", FAST),
    Planted("nack_quorum_of_one", "E4", CRASHES),
    Planted("corrupt_entry_nacked", "P7, V8", ROT),
    Planted("truncate_without_copy", "P6, E4", ROT),
    Planted("merge_ignores_log_view", "E1", BOTH),
    Planted("amnesia_rejoin", "P3, G2", WIPES),
    Planted("primary_resumes_view", "V6", CRASHES),
    Planted("view_change_quorum_minus_one", "Q1", CRASHES),
    Planted("replication_quorum_minus_one", "Q1", FAST),
    Planted("repair_by_op_number", "R1", CRASHES),
    Planted("start_view_without_suffix", "A2", CRASHES),
    Planted("start_view_before_repair", "E7", CRASHES),
    Planted("client_table_not_in_checkpoint", "P13", {**CHECKPOINTS, "client_table_max": 64}),
    Planted("duplicate_request_executed", "C1", {**FAST, "resend_duplicates": 0.3}),
    Planted("lease_never_lapses", "L1", scenario=scenarios.lease_of_a_cut_off_leader),
    Planted("join_first_vote", "P5, V2", scenario=scenarios.half_deaf_replica),
    Planted("genesis_with_majority", "G1", scenario=scenarios.genesis_without_everyone),
    Planted("truncate_before_checkpoint_durable", "S1", CHECKPOINTS),
    Planted("old_heartbeat_accepted", "N8", scenario=scenarios.replayed_heartbeats),
    Planted("repair_only_on_messages", "M4", {**CRASHES, "loss": 0.3}),
    Planted("timestamp_from_local_clock", "T2", {**FAST, "clock_skew_us": 2_000_000}),
    Planted("dvc_rebuilt_on_resend", "P10, V9", {**CRASHES, "loss": 0.25}),
    Planted("stamped_from_applied_end", "D3", FAST),
    Planted("generation_not_in_checkpoint", "K3", PURGED),
    Planted("reordered_prepare_dropped", "M3, N4", scenario=scenarios.reordered_prepares),
)

# Scripts without a bug, and those of the bugs: with every rule kept nothing goes wrong.
SCENARIOS: Final = (
    scenarios.foreign_disks,
    *(planted.scenario for planted in PLANTED if planted.scenario is not None),
)

# No search finds these in the time we gave it, mostly because a second rule covers for the first.
# Each has a script of its own, which shows the damage with the bug and none without it.
SCRIPTED_ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "commit_not_persisted": (
        "M1, M2",
        "tests/consensus/test_state.py::test_m2_the_commit_is_durable_with_the_suffix",
    ),
    "blank_is_nack": (
        "M1, E4",
        "tests/consensus/test_merge.py::test_a_blank_of_the_canonical_sender_is_never_evidence",
    ),
    "wiped_acks_before_barrier": (
        "G2",
        "tests/consensus/test_recovery.py::test_g2_no_ack_before_the_barrier_is_committed_by_others",
    ),
    "forgetful_counts": (
        "P3, G2",
        "tests/consensus/test_recovery.py"
        "::test_p3_g2_who_forgot_having_left_a_view_does_not_count_in_it",
    ),
    "adopt_drops_unverified": (
        "P1, A3",
        "tests/consensus/test_view_change.py::test_p1_a3_adopting_a_view_keeps_unverified_bodies",
    ),
    "apply_uncanonical": (
        "N7",
        "tests/consensus/test_repair.py"
        "::test_n7_a_commit_number_says_nothing_about_an_entry_that_is_not_canonical",
    ),
    "stale_prepare_accepted": (
        "N4",
        "tests/consensus/test_following.py"
        "::test_n4_a_prepare_of_an_older_view_never_becomes_the_head",
    ),
    "ack_by_op_number": (
        "P12, N6",
        "tests/consensus/test_normal.py"
        "::test_n6_p12_an_ack_of_another_prepare_with_the_same_number_does_not_count",
    ),
    "second_dvc_counts": (
        "P10",
        "tests/consensus/test_view_change.py::test_p10_the_first_claim_of_a_sender_counts",
    ),
    "stale_commit_accepted": (
        "N7",
        "tests/consensus/test_following.py::test_n7_a_commit_number_of_another_view_teaches_nothing",
    ),
    "transfer_keeps_stale_journal": (
        "K2",
        "tests/consensus/test_state_transfer.py"
        "::test_no_stale_record_survives_above_the_installed_floor",
    ),
    "backoff_never_reset": (
        "N9, M3",
        "tests/consensus/test_normal.py::test_n9_progress_resets_the_backoff",
    ),
}


def find(planted: Planted) -> Detection:
    """Looks for the damage; stops at the first objection."""
    began = process_time()
    bugs = (planted.name, *planted.together)
    if planted.scenario is not None:
        failure = planted.scenario(bugs)
        return Detection(planted.name, planted.rule, failure, None, 1, process_time() - began)
    for seed in range(planted.seeds):
        with plant(*bugs):
            failure = Simulation(draw(seed, planted.settings)).run()
        if failure is not None:
            seconds = process_time() - began
            return Detection(planted.name, planted.rule, failure, seed, seed + 1, seconds)
    seconds = process_time() - began
    return Detection(planted.name, planted.rule, None, 0, planted.seeds, seconds)
