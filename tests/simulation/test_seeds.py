"""Seeds: those that once failed and a few fixed ones always, a thousand fresh ones in their tier.

The gate runs the same seeds every day: what it says must depend on the change alone. Fresh seeds,
others every day, are for the tier by name.
"""

import os
from datetime import UTC, datetime

import pytest

from borzoi.consensus.client_table import ClientTable
from borzoi.simulator import campaign
from borzoi.simulator.draws import Draw, parse_settings
from borzoi.simulator.simulation import simulate

# Of the first failures only the kind of trouble was kept, not the whole draw, and the clients ask
# for other things today. Four of these pass, or were not tried, with the fault put back, and the
# first was not tried. They stay for the trouble they make; the faults themselves are held by
# scripted tests in `tests/consensus`.
UNPROVEN = {
    "a data group's checkpoint taken for the control group's": (
        "seed=3 replicas=5 checkpoint_ops=32 reads=0.4 safety_ticks=1500 think_ticks=5"
    ),
    "a gap that was repaired before the rewrite": (
        "seed=71 rot_every=30 crash_every=150 crash_many=1 restart_max=100 safety_ticks=6000"
    ),
    "rot between two rewrites of the journal": (
        "seed=45 rot_every=30 crash_every=150 data_groups=2 restart_max=100 safety_ticks=6000"
    ),
    "a data group that slept through a view": (
        "seed=130 crash_every=150 crash_inside_input=1 crash_many=1 safety_ticks=4500"
    ),
    "a disk that stalls while prepares keep coming": (
        "seed=156 slow_replica=1 slow_factor=100 sync_max=20 clients=8 think_ticks=2"
    ),
}

# Seeds that once failed, kept with their draws because later code changes what a bare seed means.
REGRESSIONS = {
    "a disk so slow that hundreds of ops wait for one superblock": (
        "seed=120 replicas=4 pipeline_max=32 checkpoint_ops=16 retained_ops=64"
        " client_table_max=4 safety_ticks=3000 core_all=0 delay_mean=0 loss=0.02"
        " duplication=0.078 duplicate_delay=3000 clog_ticks_mean=394 strangers_every=200"
        " crash_every=1000 restart_max=100 slow_replica=1 slow_factor=300 handover_anyone=1"
        " sync_max=2 sync_error_every=3000 rot_every=30 rot_deep=1 clock_skew_us=30000000"
        " clients=16 think_ticks=1 client_timeout=500 housekeeping=0.05 control_share=0.5"
        " deletes=0 purges=0 offsets=0 truncates=0 payload_max=400 segment_bytes=256"
        " chunk_bytes=4096"
    ),
    "a disk so slow that hundreds of ops pass between two of its checkpoints": (
        "seed=8693 replicas=5 pipeline_max=32 checkpoint_ops=16 retained_ops=64"
        " safety_ticks=3000 core_all=0 delay_mean=0 fifo=0 loss=0.02 duplication=0.415"
        " duplicate_delay=100 datagrams=1 command_filters=1 crash_every=1000 restart_max=100"
        " slow_replica=1 slow_factor=300 sync_max=2 sync_error_every=1000 rot_every=400"
        " lost_writes=0.02 clock_jump_every=500 clients=16 think_ticks=1 client_timeout=500"
        " resend_duplicates=0.028 invalid=0.05 control_share=0.5 purges=0 truncates=0"
        " payload_max=16 segment_bytes=256"
    ),
    "a rejoin that made the log longer than it could fetch": (
        "seed=13760 checkpoint_ops=16 client_table_max=16 safety_ticks=9000 delay_min=1 fifo=0"
        " loss=0.034 duplication=0.359 duplicate_delay=3000 crash_every=2500 restart_max=3000"
        " handover_anyone=1 sync_max=2 disk_full_every=4000 wipe_every=800"
        " clock_skew_us=30000000 clients=8 think_ticks=5 client_timeout=50"
        " resend_duplicates=0.082 zombies=0.02 invalid=0.05 reused_requests=0.05"
        " control_share=0.2 deletes=0 purges=0 offsets=0 payload_max=400 segment_bytes=1024"
        " chunk_bytes=512"
    ),
    "the beginning of a view that comes after a checkpoint of it": (
        "seed=16708 replicas=5 data_groups=2 checkpoint_ops=16 client_table_max=4 delay_min=3"
        " clogging=0.0173 clog_ticks_mean=490 crash_every=2500 restart_max=3000 pause_max=50"
        " handover_anyone=1 upgrade_every=200 sync_max=2 sync_slow=0.0093 rot_every=100"
        " clock_drift=5 clients=8 think_ticks=5 client_timeout=50 reused_requests=0.05"
        " housekeeping=0.05 control_share=0.2 deletes=0 payload_max=16 chunk_bytes=512"
    ),
    "a leader whose log ends with a checkpoint it was given, and whose clock is behind": (
        "seed=3946 checkpoint_ops=16 checkpoint_ticks=300 client_table_max=4 safety_ticks=4500"
        " core_all=0 delay_min=3 fifo=0 loss=0.05 duplication=0.228 duplicate_delay=10"
        " datagrams=1 partition_every=400 partition_stable=150 crash_every=1000"
        " crash_inside_input=1 restart_max=1500 slow_replica=1 slow_factor=30 slow_cpu=1"
        " upgrade_every=2000 sync_max=2 rot_every=100 stale_reads=0.01 clock_skew_us=30000000"
        " clock_drift=20 clients=6 think_ticks=5 client_timeout=50 resend_duplicates=0.03"
        " reused_requests=0.05 idle_every=3000 control_share=0.2 offsets=0 truncates=0"
        " payload_max=16 segment_bytes=1024 chunk_bytes=4096"
    ),
    "a leader that cannot read an op its peers keep no more": (
        "seed=500183 checkpoint_ops=16 client_table_max=16 genesis=1 core_all=0 delay_min=1"
        " duplication=0.103 duplicate_delay=1000 corruption=0.0006 crash_every=2500"
        " restart_max=3000 sync_max=2 sync_slow=0.0095 rot_every=100 clients=8 think_ticks=5"
        " client_timeout=50 resend_duplicates=0.291 zombies=0.02 invalid=0.05"
        " control_share=0.2 deletes=0 purges=0 truncates=0 chunk_bytes=512"
    ),
    "a state transfer that takes longer than a view": (
        "seed=730112 checkpoint_ops=16 core_all=0 fifo=0 link_capacity=32 partition_every=600"
        " partition_stable=20 one_way=1 crash_every=2500 crash_inside_input=1 restart_max=3000"
        " pause_max=50 sync_max=2 rot_deep=1 clients=8 think_ticks=5 client_timeout=50"
        " resend_duplicates=0.272 dead_clients=0.005 housekeeping=0.05 control_share=0.2"
        " deletes=0 purges=0 offsets=0 payload_max=16 chunk_bytes=4096"
    ),
    "a replica that forgot having left a view": (
        "seed=7399360838 replicas=4 data_groups=2 pipeline_max=4 checkpoint_ops=32"
        " client_table_max=16 loss=0.203 duplication=0.424 duplicate_delay=3000 clogging=0.0163"
        " clog_ticks_mean=34 datagrams=1 corruption=0.0077 partition_every=1200"
        " partition_stable=300 one_way=1 command_filters=1 pause_every=300 pause_max=50"
        " sync_max=1 sync_slow=0.0097 wipe_every=800 clients=5 invalid=0.05 control_share=0.5"
        " offsets=0 segment_bytes=1024 chunk_bytes=4096"
    ),
    "a zombie's request behind the new session": (
        "seed=6 safety_ticks=1200 resend_duplicates=0.3 zombies=0.02 loss=0.1 clients=5"
    ),
    "a checkpoint ahead of the durable prefix": (
        "seed=201 replicas=6 pipeline_max=32 checkpoint_ops=32 safety_ticks=9000 delay_mean=2.0"
        " fifo=0 crash_every=1000 crash_many=1 crash_inside_input=1 restart_max=100 sync_max=2"
        " sync_slow=0.0045 rot_every=400 clock_drift=5 clients=6 think_ticks=50"
        " client_timeout=500 zombies=0.02 dead_clients=0.005 idle_every=1000"
        " control_share=0.05 truncates=0 payload_max=400"
    ),
    "two replicas with rotten headers": (
        "seed=132 replicas=2 checkpoint_ops=256 retained_ops=1024 core_all=0 delay_min=3"
        " delay_mean=2.0 loss=0.231 duplication=0.198 duplicate_delay=3000 crash_every=150"
        " crash_many=1 restart_max=500 pause_every=300 slow_replica=1 slow_factor=30 sync_max=5"
        " rot_every=30 clients=3 think_ticks=50 client_timeout=50 invalid=0.05 reads=0.052"
        " control_share=0.5 purges=0"
    ),
    "one replica with unnamed records, another wiped": (
        "seed=180 pipeline_max=32 checkpoint_ops=64 client_table_max=4 safety_ticks=9000"
        " delay_mean=0.0 fifo=0 link_capacity=31 datagrams=1 partition_every=600"
        " partition_stable=800 crash_every=1000 crash_many=1 crash_inside_input=1"
        " restart_max=500 pause_every=2500 pause_max=50 slow_replica=1 slow_factor=100"
        " sync_max=2 wipe_every=800 clients=1 think_ticks=50 resend_duplicates=0.183"
        " reads=0.244 control_share=0.2 deletes=0 truncates=0 payload_max=400"
    ),
    "a data group's primary that led its old view again": (
        "seed=265 replicas=6 data_groups=2 pipeline_max=4 checkpoint_ops=256 retained_ops=64"
        " delay_min=1 fifo=0 loss=0.075 duplication=0.327 duplicate_delay=3000"
        " partition_every=300 partition_stable=20 crash_every=150 crash_inside_input=1"
        " restart_max=500 sync_max=5 sync_slow=0.0038 sync_error_every=3000 rot_every=100"
        " clients=6 think_ticks=5 invalid=0.05 idle_every=1000 control_share=0.05 deletes=0"
        " purges=0"
    ),
    "a leader whose data group still rejoins": (
        "seed=6 data_groups=2 pipeline_max=4 checkpoint_ops=32 retained_ops=1024"
        " safety_ticks=3000 delay_min=1 fifo=0 loss=0.1 partition_every=2400"
        " partition_stable=20 crash_every=150 crash_many=1 crash_inside_input=1 restart_max=100"
        " pause_every=2500 pause_max=50 slow_replica=1 sync_max=20 wipe_every=200"
        " clock_skew_us=50000 think_ticks=10 client_timeout=500 resend_duplicates=0.139"
        " invalid=0.05 reads=0.011 control_share=0.05 deletes=0 payload_max=400"
    ),
    "a deposed primary that does not know a session yet": (
        "seed=288 replicas=4 pipeline_max=16 checkpoint_ops=256 safety_ticks=4500 core_all=0"
        " delay_mean=2.0 fifo=0 link_capacity=44 datagrams=1 partition_every=600"
        " partition_stable=800 crash_every=400 crash_many=1 restart_max=500 sync_max=5"
        " wipe_every=2000 clients=8 client_timeout=500 resend_duplicates=0.232 reads=0.001"
        " control_share=0.5 purges=0"
    ),
    "fewer voices than a view change needs": (
        "seed=1174 replicas=2 pipeline_max=16 checkpoint_ops=32 delay_mean=10.0 fifo=0"
        " loss=0.003 link_capacity=5 datagrams=1 crash_every=150 crash_many=1 restart_max=10"
        " slow_replica=1 sync_max=5 rot_every=30 clients=5 think_ticks=50 client_timeout=500"
        " invalid=0.05 reads=0.386 control_share=0.2 deletes=0 payload_max=16"
    ),
    "a session ended while another was evicted": (
        "seed=934 pipeline_max=16 checkpoint_ops=32 client_table_max=4 core_all=0 delay_mean=2"
        " fifo=0 duplication=0.048 duplicate_delay=3000 clogging=0.004 clog_ticks_mean=239"
        " partition_every=2400 partition_stable=800 one_way=1 crash_every=400 crash_many=1"
        " restart_max=100 slow_replica=1 sync_max=5 stale_reads=0.01 clients=5 think_ticks=50"
        " client_timeout=50 resend_duplicates=0.22 zombies=0.02 dead_clients=0.005 invalid=0.05"
        " control_share=1 purges=0 truncates=0 payload_max=400 segment_bytes=1024"
        " forwarding=0.32"
    ),
    "a lost write that was repaired, and a gap only the ring can explain": (
        "seed=40025 pipeline_max=4 checkpoint_ops=256 client_table_max=16 delay_min=3"
        " delay_mean=10 fifo=0 loss=0.114 link_capacity=25 partition_every=1200"
        " partition_stable=300 crash_every=1000 crash_inside_input=1 restart_max=3000 slow_cpu=4"
        " sync_max=1 rot_every=100 stale_reads=0.1 lost_writes=0.02 clients=1 think_ticks=100"
        " client_timeout=50 reads=0.227 control_share=0.2 truncates=0 forwarding=0.54"
    ),
    "the good copy of a lost write outside of the core": (
        "seed=40040 replicas=6 pipeline_max=32 checkpoint_ops=64 retained_ops=1024"
        " client_table_max=4 core_all=0 delay_mean=5 duplication=0.038 duplicate_delay=10"
        " link_capacity=42 clogging=0.0163 clog_ticks_mean=189 datagrams=1 partition_every=300"
        " one_way=1 command_filters=1 crash_every=2500 crash_inside_input=1 restart_max=500"
        " sync_max=5 stale_reads=0.01 lost_writes=0.02 clients=8 think_ticks=5"
        " resend_duplicates=0.221 reads=0.052 idle_every=1000 control_share=0.5 deletes=0"
        " purges=0 payload_max=400 segment_bytes=256 chunk_bytes=512 forwarding=0.56"
    ),
    "a deposed leader's answer, passed on by another node": (
        "seed=40055 pipeline_max=16 checkpoint_ops=64 retained_ops=64 delay_min=1 delay_mean=5"
        " fifo=0 duplication=0.337 duplicate_delay=1000 partition_every=1200"
        " partition_stable=800 sync_max=1 wipe_every=800 clock_drift=50 clients=6 think_ticks=5"
        " client_timeout=500 resend_duplicates=0.158 dead_clients=0.005 invalid=0.05 reads=0.365"
        " control_share=0.2 offsets=0 truncates=0 payload_max=400 segment_bytes=1024"
        " chunk_bytes=512 forwarding=0.78"
    ),
    "a spoiled op that the remaining voices cannot decide": (
        "seed=50880 checkpoint_ops=32 safety_ticks=4500 core_all=0 delay_min=3 delay_mean=2"
        " fifo=0 loss=0.224 partition_every=1200 one_way=1 crash_every=150 crash_many=1"
        " restart_max=500 sync_max=2 rot_every=30 clock_skew_us=50000 clock_drift=20 clients=2"
        " think_ticks=100 client_timeout=500 resend_duplicates=0.292 invalid=0.05 reads=0.143"
        " control_share=0.5 deletes=0 purges=0 payload_max=400"
    ),
    "repair into a disk that stalls": (
        "seed=52057 replicas=4 data_groups=2 pipeline_max=2 checkpoint_ops=64 retained_ops=1024"
        " safety_ticks=9000 core_all=0 delay_min=1 delay_mean=0 fifo=0 loss=0.012"
        " partition_every=300 partition_stable=20 one_way=1 sync_max=1 sync_slow=0.0061"
        " wipe_every=800 clock_jump_every=500 clients=6 think_ticks=5 zombies=0.02 reads=0.166"
        " control_share=0.2 purges=0"
    ),
    "a transfer asked of the dead peer again and again": (
        "seed=7399360999 fast_timeouts=0 checkpoint_ops=16 checkpoint_bytes=16384"
        " safety_ticks=4500 core_all=0 delay_mean=0 fifo=0 duplication=0.437 duplicate_delay=100"
        " crash_every=2500 restart_max=3000 sync_max=2 sync_slow=0.0037 clients=8 think_ticks=5"
        " client_timeout=50 control_share=0.2 segment_bytes=256 chunk_bytes=512"
    ),
    "a repaired record torn while it was written again": (
        "seed=7399360240 pipeline_max=32 checkpoint_ops=16 retained_ops=1024"
        " client_table_max=16 safety_ticks=9000 delay_min=1 delay_mean=5 duplication=0.418"
        " duplicate_delay=3000 clogging=0.0085 clog_ticks_mean=181 partition_every=1200"
        " one_way=1 crash_every=400 crash_many=1 restart_max=100 sync_max=2 sync_slow=0.0063"
        " stale_reads=0.1 clock_drift=5 clients=6 think_ticks=5 resend_duplicates=0.045"
        " zombies=0.02 reads=0.372 control_share=0.5 deletes=0 offsets=0 payload_max=16"
        " segment_bytes=1024 full=1"
    ),
    "a record torn while it was written again, on disks that lose writes": (
        "seed=7399360268 pipeline_max=32 checkpoint_ops=16 client_table_max=16"
        " safety_ticks=9000 core_all=0 delay_mean=0 fifo=0 loss=0.123 link_capacity=36"
        " crash_every=150 crash_many=1 crash_inside_input=1 restart_max=10 slow_replica=1"
        " slow_factor=30 upgrade_every=200 sync_max=2 sync_slow=0.0063 disk_full_every=4000"
        " stale_reads=0.1 lost_writes=0.02 clock_jump_every=2000 clients=3 think_ticks=5"
        " resend_duplicates=0.299 reads=0.244 control_share=0.5 deletes=0 offsets=0"
        " payload_max=400 segment_bytes=256 forwarding=0.72 full=1"
    ),
}
FIXED = range(2_000, 2_012)
FRESH_LONG = 1000
VACUOUS_SHARE_MAX = 0.05


def fresh_seeds(count: int) -> range:
    """Other ones every day, the same ones all day; a failing seed is in the name of its test."""
    day = int(os.environ.get("BORZOI_SIMULATION_DAY", datetime.now(tz=UTC).toordinal()))
    first = day * 10_000
    return range(first, first + count)


def draw_of(line: str) -> Draw:
    return Draw(**parse_settings(tuple(line.split())))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*REGRESSIONS, *UNPROVEN])
def test_a_seed_that_failed_once_does_not_fail_again(name):
    outcome = simulate(draw_of((REGRESSIONS | UNPROVEN)[name]))
    assert outcome.failure is None, outcome.failure.line()


def test_the_zombie_comes_back_when_its_epoch_is_not_judged(monkeypatch):
    judged = ClientTable.preflight
    monkeypatch.setattr(
        ClientTable,
        "preflight",
        lambda table, client, request, identity, _: judged(table, client, request, identity, 0),
    )
    outcome = simulate(draw_of(REGRESSIONS["a zombie's request behind the new session"]))
    assert outcome.failure is not None
    assert outcome.failure.kind == "at most once"


@pytest.mark.parametrize("seed", FIXED)
def test_a_seed_keeps_every_promise(seed):
    outcome = campaign.run_seed(seed, {}, twice=seed % 4 == 0)
    assert outcome.failure is None, f"borzoi simulate --seed {seed}: {outcome.failure.line()}"


@pytest.mark.simulation
def test_a_thousand_fresh_seeds_keep_every_promise():
    seeds = fresh_seeds(FRESH_LONG)
    totals = campaign.run(campaign.Campaign(seeds[0], seeds[-1]), jobs=os.cpu_count() or 1)
    assert totals.failures == []
    assert totals.seeds == FRESH_LONG
    assert totals.vacuous_share < VACUOUS_SHARE_MAX
