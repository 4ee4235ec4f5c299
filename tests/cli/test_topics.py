import pytest
from tests.support.command_line import assert_said, assert_shown, in_formats

from borzoi.cli.documents import record_of

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("form", "names"), in_formats(("topic", "create", "get", "list"), ("t", "c", "g", "l"))
)
def test_a_topic_is_created_described_and_listed(borzoi, client, stream, form, names):
    group, create, get, list_ = names
    made = borzoi.document(group, create, stream, "made", 3, "gzip", "7days", form=form)
    known = record_of(client.get_topic("shop/made"))
    assert len(known["partitions"]) == 3
    assert known["compression"] == "gzip"
    assert known["message_expiry"] == 7 * 24 * 3600 * 1_000_000
    described = borzoi.document(group, get, "shop/made", form=form)
    apart = borzoi.document(group, get, "shop", "made", form=form)
    listed = borzoi.document(group, list_, stream, form=form)
    assert described == apart
    without_segments = [partition | {"segments_count": 0} for partition in known["partitions"]]
    created = known | {"partitions": without_segments}
    assert_said(made, form, "Topic shop/made was created with 3 partitions.", created)
    assert_shown(described, form, "gzip", known)
    assert_shown(listed, form, "orders", [record_of(one) for one in client.get_topics(stream)])


@pytest.mark.parametrize(
    ("form", "names"), in_formats(("update", "purge", "delete"), ("u", "p", "d"))
)
def test_a_topic_is_changed_emptied_and_deleted(borzoi, client, stream, form, names):
    update, purge, delete = names
    what = ("shop/orders", "sales", "none", "1h", "-m", "2GiB")
    changed = borzoi.document("topic", update, *what, form=form)
    known = client.get_topic("shop/sales")
    assert (known.message_expiry, known.max_topic_size) == (3_600_000_000, 2 << 30)
    purged = borzoi.document("topic", purge, "shop", "sales", form=form)
    assert client.get_topic("shop/sales").messages_count == 0
    deleted = borzoi.document("topic", delete, "shop/sales", form=form)
    assert client.get_topic("shop/sales") is None
    assert_said(changed, form, "Topic shop/orders was changed.", {"name": "sales"})
    assert_said(purged, form, "Topic shop/sales was purged.", {"purged": "shop/sales"})
    assert_said(deleted, form, "Topic shop/sales was deleted.", {"deleted": "shop/sales"})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("create", "shop", "x", "many"), "number of partitions is 'many'"),
        (
            ("create", "shop", "x", "1", "brotli"),
            "'brotli' is not a compression; none, gzip",
        ),
        (("create", "shop"), "a topic is needed: STREAM TOPIC, or STREAM/TOPIC"),
        (("update", "shop", "orders"), "the topic's name is needed"),
    ],
)
def test_wrong_arguments_are_one_sentence(borzoi, stream, arguments, sentence):
    assert sentence in borzoi.refused(2, "topic", *arguments)
