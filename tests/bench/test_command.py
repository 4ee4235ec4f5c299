import json

import pytest

from borzoi.bench.command import EXAMPLES
from borzoi.bench.plan import KINDS

SMALL = ("-m", "50", "-P", "10", "-b", "3", "--processes", "1")


def run(borzoi, *arguments):
    where = ("tcp", "--server-address", "{}:{}".format(*borzoi.address))
    return borzoi.run("bench", *SMALL, *arguments, *where)


OPTIONS = {
    "pp": ("-p", "2"),
    "pc": ("-c", "2"),
    "ppc": ("-p", "2", "-c", "2"),
    "bp": ("-p", "2", "-a", "2"),
    "bcg": ("-c", "2", "-a", "2"),
    "bpcg": ("-p", "2", "-c", "2", "-a", "2"),
    "e2e": ("-p", "2", "-s", "2"),
    "e2ecg": ("-p", "2", "-c", "2", "-a", "2"),
}
#: What has to have run before, so that there is something to read.
BEFORE = {"pc": "pp", "bcg": "bp"}


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.alias)
def test_every_kind_runs_and_is_reported(borzoi, tmp_path, kind):
    if kind.alias in BEFORE:
        run(borzoi, BEFORE[kind.alias], *OPTIONS[BEFORE[kind.alias]])
    where = ("tcp", "--server-address", "{}:{}".format(*borzoi.address))
    output = ("output", "-o", tmp_path, "--remark", "tiny", "--identifier", "box")
    said = borzoi.run("bench", *SMALL, kind.name, *OPTIONS[kind.alias], *where, *output)
    assert kind.name in said
    (folder,) = [path for path in tmp_path.iterdir() if path.name.startswith(kind.json_name)]
    report = json.loads((folder / "report.json").read_text())
    assert report["params"]["benchmark_kind"] == kind.json_name
    assert report["params"]["remark"] == "tiny"
    assert report["server_stats"]["messages_count"] > 0
    for group in report["group_metrics"]:
        assert group["summary"]["total_throughput_messages_per_second"] > 0
        assert group["latency_percentiles"]
    page = (folder / "report.html").read_text()
    assert report["uuid"] in page
    assert "<svg" in page or "<canvas" in page or "createElementNS" in page
    compared = borzoi.run("bench", "compare", folder, folder / "report.json")
    assert "1.00" in compared


@pytest.mark.system
def test_a_total_instead_of_batches(borzoi, tmp_path):
    where = ("tcp", "--server-address", "{}:{}".format(*borzoi.address))
    borzoi.run("bench", *SMALL, "-T", "5KB", "pp", "-p", "1", *where, "output", "-o", tmp_path)
    (report,) = tmp_path.glob("*/report.json")
    assert json.loads(report.read_text())["params"]["message_batches"] == 10


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.alias)
def test_every_kind_finishes_on_a_server_of_its_own(borzoi, kind):
    said = borzoi.run("bench", *SMALL, "--embedded", kind.name, *OPTIONS[kind.alias])
    assert kind.name in said


def test_examples(borzoi_offline):
    assert borzoi_offline.run("bench", "examples") == EXAMPLES + "\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("-m", "x", "pp"), 1, "--message-size is 'x'; allowed are a number or a range"),
        (("pp", "-p", "2", "-s", "3"), 1, "needs as many streams as actors"),
        (("pp", "-p", "0"), 1, "would have 0 actors"),
        (("compare", "absent", "absent"), 2, "does not exist"),
    ],
)
def test_what_is_wrong_is_one_sentence(borzoi_offline, arguments, code, sentence):
    said = borzoi_offline.refused(code, "bench", *arguments)
    assert sentence in said.replace("\n", " ")


def test_a_file_that_is_no_report(borzoi_offline, tmp_path):
    (tmp_path / "a.json").write_text("oops")
    result = borzoi_offline.invoke("bench", "compare", tmp_path / "a.json", tmp_path / "a.json")
    assert "is not a report" in result.stderr
