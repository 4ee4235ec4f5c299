import json
import subprocess
import sys

import pytest
from tests.support.command_line import assert_said, in_formats, parsed

from borzoi.cli.tailing import ensure

pytestmark = pytest.mark.system


@pytest.mark.parametrize(("form", "names"), in_formats(("send",)))
def test_messages_are_sent_to_a_topic_that_is_made_first(borzoi, client, form, names):
    said = borzoi.document(*names, "new/one", "a", "b", "--create", form=form)
    try:
        assert client.get_topic("new/one").messages_count == 2
        assert_said(said, form, "2 messages were sent to new/one.", {"sent": 2})
        ensure(client, ("new", "one"))
    finally:
        client.delete_stream("new")


@pytest.mark.parametrize(("form", "names"), in_formats(("tail",)))
def test_the_end_of_a_topic(borzoi, stream, form, names):
    said = borzoi.document(*names, "shop/orders", "-n", "2", form=form)
    if form == "table":
        lines = said.splitlines()
        assert [line.split()[0] for line in lines] == ["0:2", "0:3", "1:2", "1:3"]
    else:
        places = [(one["partition"], one["offset"]) for one in said]
        assert places == [(0, 2), (0, 3), (1, 2), (1, 3)]
        assert said[0]["payload"] == {"n": 2, "kind": "k0"}


def test_a_filter_and_a_format(borzoi, stream):
    where = ("--from", "first", "-p", "1", "-w", 'json.n > 0 and json.kind == "k1"')
    said = borzoi.run("tail", "shop/orders", *where, "--format", "{partition}/{offset} {size}")
    assert said == "1/1 22\n1/3 22\n"


def test_it_stops_after_as_many_as_wanted(borzoi, stream):
    said = borzoi.run("tail", "-f", "shop/orders", "--from", "2", "--max", "3", "-o", "jsonl")
    assert len(parsed(said, "jsonl")) == 3


def test_follow_shows_what_arrives_and_ctrl_c_ends_it_quietly(borzoi, client, stream):
    host, port = borzoi.address
    command = [sys.executable, "-m", "borzoi", "--server", f"borzoi://iggy:iggy@{host}:{port}"]
    with subprocess.Popen(
        [*command, "tail", "-f", "shop/orders", "-n", "1", "-p", "0", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONUNBUFFERED": "1", "BORZOI_HOME": str(borzoi.home), "PATH": ""},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = ""
        while not seen.endswith("}"):
            seen += process.stdout.read(1)
        client.send_messages("shop/orders", ["news"], partition=0)
        while not seen.endswith('"news"}') and process.poll() is None:
            seen += process.stdout.read(1)
        process.send_signal(2)
        rest, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == ""
    document = json.loads(seen + rest)
    assert [one["payload"] for one in document][-1] == "news"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("tail", "shop/orders", "-n", "1", "--from", "first"), 2, "give --last or --from"),
        (("tail", "shop/orders", "-w", "price >"), 8, "cannot be read"),
        (("tail", "shop/orders", "--from", "soon"), 8, "'soon' is not a place in a topic"),
        (("tail", "shop/absent"), 6, "there is no topic shop/absent"),
        (("tail", "shop/orders", "-p", "7"), 6, "has no partition 7"),
        (("tail", "shop"), 2, "'shop' is not a topic: write STREAM/TOPIC"),
        (("tail", "shop/orders", "--format", "{price}"), 2, "the format has {price}; allowed"),
        (("send", "shop/orders", "x", "-H", "n"), 8, "'n' is not a header"),
    ],
)
def test_what_is_wrong_is_one_sentence(borzoi, stream, arguments, code, sentence):
    assert sentence in borzoi.refused(code, *arguments)
