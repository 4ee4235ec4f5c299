"""The command line: what it runs, what it prints, how it exits."""

import json

import pytest
from click.testing import CliRunner

from borzoi.simulator import planted
from borzoi.simulator.command import simulate

SHORT = ("--set", "safety_ticks=600", "--set", "replicas=3", "--set", "clients=2")


def run(*arguments: str):
    return CliRunner().invoke(simulate, arguments)


def test_one_seed_prints_draw_trace_and_digest():
    result = run("--seed", "5", *SHORT)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("draw: seed=5")
    assert any("StartView" in line for line in lines) or any("Prepare" in line for line in lines)
    assert lines[-1] == "ok"
    assert lines[-2].startswith("digest ")


def test_quiet_prints_no_events():
    result = run("--seed", "5", "--quiet", *SHORT)
    assert result.exit_code == 0
    assert len(result.output.splitlines()) < 90


def test_many_seeds_end_in_a_table_and_can_be_resumed(tmp_path):
    resume = tmp_path / "campaign.jsonl"
    first = run("--seeds", "1..3", "--jobs", "1", "--resume", str(resume), *SHORT)
    assert first.exit_code == 0, first.output
    assert "| seeds" in first.output
    chunks = [json.loads(line) for line in resume.read_text().splitlines()]
    assert chunks[1]["totals"]["seeds"] == 3
    again = run("--seeds", "1..3", "--jobs", "1", "--resume", str(resume), *SHORT)
    assert again.exit_code == 0
    assert len(resume.read_text().splitlines()) == len(chunks)


def test_a_planted_bug_makes_it_fail():
    result = run("--seed", "5", "--quiet", "--bug", "ack_before_fsync", *SHORT)
    assert result.exit_code == 1
    assert "FAILED: durability" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--seed", "1", "--seeds", "1..2"),
        ("--seeds", "5..2"),
        ("--seeds", "nine"),
        ("--seeds", "1..2", "--minimize"),
        ("--seed", "1", "--set", "colour=1"),
    ],
)
def test_wrong_usage_is_said_so(arguments):
    assert run(*arguments).exit_code == 2


def test_another_campaigns_file_is_refused(tmp_path):
    resume = tmp_path / "campaign.jsonl"
    run("--seeds", "1..1", "--jobs", "1", "--resume", str(resume), *SHORT)
    result = run(
        "--seeds", "1..1", "--jobs", "1", "--resume", str(resume), *SHORT, "--set", "loss=0.1"
    )
    assert result.exit_code == 1
    assert "holds" in result.output


def test_a_hunt_names_every_bug_and_every_script(monkeypatch):
    monkeypatch.setattr(planted, "PLANTED", planted.PLANTED[:2])
    monkeypatch.setattr(planted, "SCENARIOS", planted.SCENARIOS[:1])
    result = run("--hunt")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines] == [
        planted.PLANTED[0].name,
        planted.PLANTED[1].name,
        "foreign_disks",
    ]
    assert lines[-1].endswith("ok")


def test_one_thing_at_a_time():
    assert run("--hunt", "--seed", "5").exit_code == 2
    assert run().exit_code == 2
