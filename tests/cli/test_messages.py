import pytest
from tests.support.command_line import FORMATS, assert_said, in_formats

from borzoi.cli.messages import again

pytestmark = pytest.mark.system


@pytest.mark.parametrize(("form", "names"), in_formats(("message", "send"), ("m", "s")))
def test_messages_are_sent(borzoi, client, stream, form, names):
    said = borzoi.document(*names, "shop", "orders", "one", "two", "-p", "1", form=form)
    polled = client.poll_messages("shop/orders", partition=1, start=4, count=9)
    assert [one.text() for one in polled] == ["one", "two"]
    assert_said(said, form, "2 messages were sent to shop/orders.", {"sent": 2})


@pytest.mark.parametrize(("form", "names"), in_formats(("message", "poll"), ("m", "p")))
def test_messages_are_polled(borzoi, client, stream, form, names):
    place = ("shop/orders", "0", "-o", "1", "-m", "2")
    said = borzoi.document(*names, *place, form=form, option="--output")
    known = client.poll_messages("shop/orders", partition=0, start=1, count=2)
    if form == "table":
        assert '{"n": 1, "kind": "k1"}' in said
    else:
        assert [one["offset"] for one in said] == [1, 2]
        assert [one["payload"]["n"] for one in said] == [1, 2]
        assert [one["id"] for one in said] == [str(one.id) for one in known]
        assert [one["timestamp"] for one in said] == [one.timestamp for one in known]


@pytest.mark.parametrize(
    ("option", "offsets"), [("-f", [0, 1]), ("-l", [2, 3]), ("-n", [0, 1]), ("--first", [0, 1])]
)
def test_where_a_poll_starts(borzoi, stream, option, offsets):
    place = ("message", "poll", "shop/orders", "0", option, "-m", "2")
    said = borzoi.document(*place, option="--output")
    assert [one["offset"] for one in said] == offsets


def test_next_goes_on_behind_what_was_committed(borzoi, stream):
    place = ("message", "poll", "shop/orders", "0", "-n", "-a", "-c", "reader")
    first = borzoi.document(*place, option="--output")
    second = borzoi.document(*place, option="--output")
    assert [first[0]["offset"], second[0]["offset"]] == [0, 1]


@pytest.mark.parametrize(("form", "names"), in_formats(("message", "flush"), ("m", "f")))
def test_a_partition_is_flushed(borzoi, stream, form, names):
    said = borzoi.document(*names, "shop/orders", "1", "--fsync", form=form)
    assert_said(said, form, "Partition 1 of shop/orders is saved.", {"flushed": True})


def test_lines_of_standard_input_are_messages(borzoi, client, stream):
    said = borzoi.run("message", "send", "shop/orders", "-p", "0", text="a\nb\n\nc\n")
    assert said == "4 messages were sent to shop/orders.\n"
    polled = client.poll_messages("shop/orders", partition=0, start=4, count=9)
    assert [one.text() for one in polled] == ["a", "b", "", "c"]


def test_headers_travel_with_the_message(borzoi, client, stream):
    borzoi.run("m", "s", "shop/orders", "x", "-p", 0, "-H", "n:uint32:7,ok:bool:true")
    (message,) = client.poll_messages("shop/orders", partition=0, start="last", count=1)
    assert message.headers == {"n": 7, "ok": True}
    shown = borzoi.run("m", "p", "shop/orders", "0", "-l", "-s")
    assert "n=7" in shown


def test_a_file_of_polled_messages_is_sent_again(borzoi, client, stream, tmp_path):
    file = tmp_path / "kept"
    borzoi.run("m", "p", "shop/orders", "0", "-f", "-m", "4", "--output-file", file)
    borzoi.run("m", "s", "shop/orders", "-p", "1", "--input-file", file)
    before = client.poll_messages("shop/orders", partition=0, start="first", count=4)
    after = client.poll_messages("shop/orders", partition=1, start=4, count=4)
    assert [(one.id, one.payload) for one in after] == [(one.id, one.payload) for one in before]
    assert [again(one).id for one in before] == [one.id for one in before]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("send", "a/b", "x", "-p", "0", "-m", "k"), "give --partition-id or --message-key"),
        (("poll", "a/b", "0"), "exactly one of --offset"),
        (("poll", "a/b", "0", "-f", "-l"), "exactly one of --offset"),
        (("poll", "a/b", "-f"), "a partition is needed"),
        (("flush", "a/b", "x"), "a partition is needed"),
    ],
)
def test_wrong_arguments_are_one_sentence(borzoi, arguments, sentence):
    assert sentence in borzoi.refused(2, "message", *arguments)


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_partition_is_an_empty_document(borzoi, client, stream, form):
    client.purge_topic("shop/orders")
    said = borzoi.document("m", "p", "shop/orders", 0, "-f", form=form, option="--output")
    assert form == "table" or said == []
