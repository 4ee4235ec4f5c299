import pytest
from tests.support.command_line import assert_said, assert_shown, in_formats

from borzoi.cli.documents import record_of

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("form", "names"),
    in_formats(("consumer-group", "create", "get", "list", "delete"), ("g", "c", "g", "l", "d")),
)
def test_a_group_is_created_described_listed_and_deleted(borzoi, client, stream, form, names):
    group, create, get, list_, delete = names
    made = borzoi.document(group, create, "shop/orders", "billing", form=form)
    known = record_of(client.get_consumer_group("shop/orders", "billing"))
    described = borzoi.document(group, get, "shop", "orders", "billing", form=form)
    listed = borzoi.document(group, list_, "shop/orders", form=form)
    groups = [record_of(one) for one in client.get_consumer_groups("shop/orders")]
    deleted = borzoi.document(group, delete, "shop/orders", "billing", form=form)
    assert client.get_consumer_group("shop/orders", "billing") is None
    sentence = f"Consumer group 'billing' of shop/orders was created, id {known['id']}."
    assert_said(made, form, sentence, known)
    assert_shown(described, form, "billing", known)
    assert_shown(listed, form, "billing", groups)
    assert_said(deleted, form, "Consumer group 'billing' was deleted.", {"deleted": "billing"})


@pytest.mark.parametrize(
    ("form", "names"), in_formats(("consumer-offset", "set", "get"), ("o", "s", "g"))
)
@pytest.mark.parametrize("kind", ["consumer", "consumer-group"])
def test_an_offset_is_set_and_shown(borzoi, client, stream, form, names, kind):
    group, set_, get = names
    client.create_consumer_group("shop/orders", "billing")
    said = borzoi.document(group, set_, "billing", "shop/orders", 1, 2, "-k", kind, form=form)
    reader = {"group" if kind == "consumer-group" else "consumer": "billing"}
    known = record_of(client.get_consumer_offset("shop/orders", partition=1, **reader))
    assert known["stored_offset"] == 2
    shown = borzoi.document(group, get, "billing", "shop", "orders", 1, "-k", kind, form=form)
    assert_said(said, form, f"The offset of {kind} 'billing' is now 2.", {"offset": 2})
    assert_shown(shown, form, "stored offset", known)


def test_an_offset_that_was_never_stored_is_not_found(borzoi, stream):
    said = borzoi.refused(6, "consumer-offset", "get", "9", "shop/orders", "0")
    assert "consumer 9 has stored no offset in partition 0" in said


def test_what_is_missing_is_named(borzoi):
    assert "a name is needed" in borzoi.invoke("consumer-group", "create", "a/b").stderr
    assert "a partition is needed" in borzoi.invoke("consumer-offset", "get", "1", "a/b").stderr


def test_the_offset_of_a_group_at_work_is_left_alone(borzoi, client, stream):
    client.create_consumer_group("shop/orders", "billing")
    client.join_consumer_group("shop/orders", "billing")
    said = borzoi.refused(8, "o", "set", "billing", "shop/orders", 0, 1, "-k", "consumer-group")
    assert "has members" in said
