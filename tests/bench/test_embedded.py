import os

import pytest

from borzoi.bench.embedded import embedded_server, settings_for
from borzoi.client import Client
from borzoi.model.errors import CannotConnect


def test_only_tcp_and_the_transport_listen(tmp_path):
    found = settings_for("http", tmp_path)
    assert found["BORZOI_SYSTEM_PATH"] == str(tmp_path)
    assert found["BORZOI_HTTP_ENABLED"] == "true"
    assert found["BORZOI_QUIC_ENABLED"] == found["BORZOI_WEBSOCKET_ENABLED"] == "false"


@pytest.mark.system
def test_a_server_for_the_length_of_a_block():
    with embedded_server() as address:
        with Client(f"borzoi://iggy:iggy@{address}") as client:
            process = client.get_stats().process_id
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.system
def test_one_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setenv("IGGY_SYSTEM_SEGMENT_SIZE", "nonsense")
    with pytest.raises(CannotConnect, match="did not start: "), embedded_server():
        pass
