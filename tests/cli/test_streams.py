import pytest
from tests.support.command_line import assert_said, assert_shown, in_formats

from borzoi.cli.documents import record_of

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("form", "names"), in_formats(("stream", "create", "get", "list"), ("s", "c", "g", "l"))
)
def test_a_stream_is_created_described_and_listed(borzoi, client, form, names):
    group, create, get, list_ = names
    made = borzoi.document(group, create, "made", form=form)
    try:
        known = record_of(client.get_stream("made"))
        described = borzoi.document(group, get, "made", form=form)
        by_id = borzoi.document(group, get, known["id"], form=form)
        listed = borzoi.document(group, list_, form=form)
        assert_said(made, form, f"Stream 'made' was created with id {known['id']}.", known)
        assert_shown(described, form, "made", known)
        assert_shown(by_id, form, "made", known)
        assert_shown(listed, form, "made", [record_of(one) for one in client.get_streams()])
    finally:
        client.delete_stream("made")


@pytest.mark.parametrize(
    ("form", "names"), in_formats(("update", "purge", "delete"), ("u", "p", "d"))
)
def test_a_stream_is_renamed_emptied_and_deleted(borzoi, client, stream, form, names):
    update, purge, delete = names
    renamed = borzoi.document("stream", update, stream, "market", form=form)
    purged = borzoi.document("stream", purge, "market", form=form)
    assert client.get_stream("market").messages_count == 0
    deleted = borzoi.document("stream", delete, "market", form=form)
    assert client.get_stream("market") is None
    assert_said(renamed, form, "Stream 'shop' was renamed to 'market'.", {"name": "market"})
    assert_said(purged, form, "Stream 'market' was purged.", {"purged": "market"})
    assert_said(deleted, form, "Stream 'market' was deleted.", {"deleted": "market"})


def test_a_list_as_the_published_command_line_prints_it(borzoi, client, stream):
    (line,) = borzoi.run("stream", "list", "-l", "list").splitlines()
    found = client.get_stream(stream)
    identity, _, name, size, messages, topics = line.split("|")
    assert (identity, name, messages, topics) == (str(found.id), "shop", "8", "1")
    assert size == str(found.size_bytes)


def test_the_id_that_old_scripts_give_is_accepted(borzoi, client):
    borzoi.run("stream", "create", "-s", "77", "numbered")
    client.delete_stream("numbered")
