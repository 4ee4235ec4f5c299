import pytest


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (("stream", "get", "absent"), "there is no stream 'absent'"),
        (("topic", "get", "shop", "absent"), "there is no topic shop/absent"),
        (("user", "get", "absent"), "there is no user 'absent'"),
    ],
)
def test_a_missing_item_is_one_message_and_no_document(borzoi, stream, command, missing):
    assert missing in borzoi.refused(6, *command, "-o", "json")


def test_list_mode_prints_one_line_per_item(borzoi, stream):
    result = borzoi.invoke("topic", "list", "shop", "-l", "list")
    assert [line.split("|")[2] for line in result.stdout.splitlines()] == ["orders"]
