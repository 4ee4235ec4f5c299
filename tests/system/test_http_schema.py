"""Calls that a program makes up from the description: no answer is a fault of ours, and each is as
described."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.server import running_server

pytestmark = pytest.mark.system

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)
#: These would lock out the user that makes the calls.
#: Everything else may be called by chance: `--exclude-path` takes whole paths.
NEVER = ["--exclude-path", "/users/logout", "--exclude-operation-id", "UpdateUser"]
#: This one would never end.
NEVER += ["--exclude-operation-id", "FollowMessages"]
#: What a topic with messages is needed for.
KEEPING = [
    part
    for name in ("DeleteStream", "DeleteTopic", "UpdateStream", "UpdateTopic", "DeletePartitions")
    for part in ("--exclude-operation-id", name)
]
#: Polls that wait would take too long.
ANYWHERE = """
[parameters]
"query.wait_ms" = 1
"""
#: Names that lead somewhere.
PARAMETERS = f"""
{ANYWHERE}
"path.stream_id" = ["s", "0"]
"path.topic_id" = ["t", "0"]
"path.partition_id" = [0, 1, 2]
"""


def call(address: str, path: str, document: Any, token: str = "") -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(address + path, json.dumps(document).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def fuzzed(folder: Path, parameters: str, examples: int, more: Sequence[str]) -> int:
    """How many calls were made; each was answered as the description says."""
    config = folder / "schemathesis.toml"
    config.write_text(parameters)
    with running_server({"HTTP_ENABLED": "true", "HTTP_ADDRESS": "127.0.0.1:0"}) as server:
        host, port = server.addresses["http"]
        address = f"http://{host}:{port}"
        login = {"username": "iggy", "password": "iggy"}
        token = call(address, "/users/login", login)["access_token"]["token"]
        call(address, "/streams", {"name": "s"}, token)
        topic = {
            "name": "t",
            "partitions_count": 3,
            "compression_algorithm": "none",
            "message_expiry": 0,
            "max_topic_size": 0,
        }
        call(address, "/streams/s/topics", topic, token)
        program = Path(sys.executable).with_name("st")
        command: list[str | Path] = [
            program,
            "--config-file",
            config,
            "run",
            f"{address}/openapi.json",
        ]
        command += ["-H", f"Authorization: Bearer {token}", "--checks", CHECKS]
        command += ["--max-examples", str(examples), "--phases", "examples,coverage,fuzzing"]
        command += ["--no-color", "--warnings", "off", "--generation-database", "none"]
        done = subprocess.run(
            [*command, *NEVER, *more],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=folder,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
        assert " ERROR " not in server.output, server.output
        assert server.stop() == 0
    counted = re.search(r"(\d+) generated, \1 passed", done.stdout)
    assert counted is not None, done.stdout[-2000:]
    return int(counted[1])


def test_made_up_calls_are_answered_as_described(tmp_path: Path) -> None:
    assert fuzzed(tmp_path, PARAMETERS, 3, KEEPING) > 1000


@pytest.mark.deep
def test_thousands_of_made_up_calls_are_answered_as_described(tmp_path: Path) -> None:
    anywhere = fuzzed(tmp_path, ANYWHERE, 60, [])
    somewhere = fuzzed(tmp_path, PARAMETERS, 60, KEEPING)
    print(f"{anywhere} calls anywhere, {somewhere} where something is")
    assert anywhere + somewhere >= 5000
