import zipfile

import pytest
from tests.support.command_line import FORMATS, assert_said, in_formats, one_of

from borzoi.cli.documents import record_of

pytestmark = pytest.mark.system


@pytest.mark.parametrize("form", FORMATS)
def test_ping_measures_and_needs_no_login(borzoi, form):
    borzoi.credentials = ()
    said = borzoi.document("ping", form=form)
    if form == "table":
        assert said.startswith("ping 1: ")
        assert "min/avg/max/mdev = " in said
    else:
        found = one_of(said, form)
        assert found["count"] == 1
        assert 0 < found["min_ms"] == found["avg_ms"] == found["max_ms"]


@pytest.mark.parametrize("form", FORMATS)
def test_me_is_this_connection(borzoi, client, form):
    said = borzoi.document("me", form=form)
    if form == "table":
        assert "client id" in said
    else:
        found = one_of(said, form)
        assert found["user_id"] == client.get_me().user_id
        assert found["client_id"] != client.get_me().client_id


@pytest.mark.parametrize("form", FORMATS)
def test_stats_are_the_servers(borzoi, client, stream, form):
    said = borzoi.document("stats", form=form)
    if form == "table":
        assert "messages count" in said
    else:
        found = one_of(said, form)
        known = record_of(client.get_stats())
        assert found.keys() == known.keys()
        for name in ("process_id", "messages_count", "streams_count", "topics_count", "hostname"):
            assert found[name] == known[name]


@pytest.mark.parametrize("form", FORMATS)
def test_a_snapshot_is_a_zip_file(borzoi, tmp_path, form):
    out = ("--out-dir", tmp_path / form, "-s", "resource_usage")
    said = borzoi.document("snapshot", *out, form=form)
    (path,) = (tmp_path / form).iterdir()
    assert zipfile.ZipFile(path).testzip() is None
    size = path.stat().st_size
    assert_said(said, form, f"Saved {path} ({size} bytes).", {"path": str(path), "bytes": size})


@pytest.mark.parametrize(("form", "names"), in_formats(("client", "list", "get"), ("c", "l", "g")))
def test_clients_are_listed_and_described(borzoi, client, form, names):
    group, list_, get = names
    mine = client.get_me().client_id
    listed = borzoi.document(group, list_, form=form)
    described = borzoi.document(group, get, mine, form=form)
    if form == "table":
        assert str(mine) in listed
        assert str(mine) in described
    else:
        assert mine in [one["client_id"] for one in listed]
        assert one_of(described, form) == record_of(client.get_client(mine))


def test_a_client_that_is_not_there_is_not_found(borzoi):
    assert borzoi.invoke("client", "get", 4_000_000_000).exit_code == 6


@pytest.mark.parametrize(("form", "names"), in_formats(("cluster", "metadata"), ("cl", "m")))
def test_the_nodes_of_the_cluster(borzoi, client, form, names):
    said = borzoi.document(*names, form=form)
    known = record_of(client.get_cluster_metadata())
    if form == "table":
        assert known["nodes"][0]["name"] in said
    elif form == "jsonl":
        assert said == known["nodes"]
    else:
        assert said == known
