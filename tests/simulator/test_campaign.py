"""Campaigns: every seed once, resumable, equal digests at both fidelities."""

import json

import pytest

from borzoi.simulator import campaign
from borzoi.simulator.campaign import Campaign, OtherCampaign

SHORT = {"safety_ticks": 400, "replicas": 3, "clients": 2, "liveness_ticks": 3000}


def test_chunks_cover_every_seed_once():
    chunks = Campaign(3, 45, chunk=20).chunks()
    assert [seed for chunk in chunks for seed in chunk] == list(range(3, 46))


def test_a_seed_runs_at_both_fidelities():
    outcome = campaign.run_seed(4, SHORT, twice=True)
    assert outcome.failure is None


def test_a_stopped_campaign_goes_on_where_it_was(tmp_path):
    resume = tmp_path / "campaign.jsonl"
    planned = Campaign(1, 4, SHORT, chunk=2, full_every=0)
    whole = campaign.run(planned, resume=resume)
    lines = resume.read_text().splitlines()
    # Killed while it wrote the last chunk: that one is run again, the first is not.
    resume.write_text("\n".join([*lines[:2], lines[2][:40]]) + "\n")
    told: list[int] = []
    again = campaign.run(
        planned, resume=resume, progress=lambda totals, _: told.append(totals.seeds)
    )
    assert told == [4]
    assert again.counters == whole.counters


def test_another_campaigns_file_is_refused(tmp_path):
    resume = tmp_path / "campaign.jsonl"
    resume.write_text(json.dumps({"campaign": {"first": 9}}) + "\n")
    with pytest.raises(OtherCampaign):
        campaign.run(Campaign(1, 2, SHORT), resume=resume)


def test_it_can_stop_at_the_first_failure():
    planned = Campaign(1, 9, SHORT, bugs=("ack_before_fsync",), chunk=3, full_every=0)
    totals = campaign.run(planned, stop_at_failure=True)
    assert totals.seeds == 3
    assert totals.failures


def test_several_processes_give_the_same_sums():
    planned = Campaign(1, 4, SHORT, chunk=2, full_every=0)
    assert campaign.run(planned, jobs=2).counters == campaign.run(planned).counters
