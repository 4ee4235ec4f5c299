"""One browser and one server for all of these tests."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.browser import Browser, NoBrowser, executable, running_browser
from tests.support.server import RunningServer, running_server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        executable()
    except NoBrowser as fault:
        # Not skipped: who asks for this tier wants to know.
        pytest.exit(str(fault), returncode=2)
    with running_browser() as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    settings = {
        "HTTP_ENABLED": "true",
        "HTTP_ADDRESS": "127.0.0.1:0",
        # Tokens outlive the process.
        "HTTP_JWT_ENCODING_SECRET": "a secret of these tests, thirty-two bytes or more",
        "WEBSOCKET_ENABLED": "true",
        "WEBSOCKET_ADDRESS": "127.0.0.1:0",
    }
    with running_server(settings) as running:
        yield running


class Api(httpx.Client):
    """The server over HTTP, logged in."""

    def __init__(self, server: RunningServer) -> None:
        super().__init__(base_url="http://{}:{}".format(*server.addresses["http"]))
        who = {"username": "iggy", "password": "iggy"}
        self.token: str = self.done("POST", "/users/login", who)["access_token"]["token"]
        self.headers["Authorization"] = f"Bearer {self.token}"

    def done(self, method: str, path: str, document: Any = None) -> Any:
        answer = self.request(method, path, json=document)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def create_topic(self, stream: str) -> None:
        self.done("POST", "/streams", {"name": stream})
        topic = {
            "name": "t",
            "partitions_count": 1,
            "compression_algorithm": "none",
            "message_expiry": 0,
            "max_topic_size": 0,
        }
        self.done("POST", f"/streams/{stream}/topics", topic)


@pytest.fixture
def api(server: RunningServer) -> Iterator[Api]:
    connected = Api(server)
    yield connected
    connected.close()


@pytest.fixture
def send(api: Api) -> Callable[[str, list[str]], None]:
    """Send texts to the only partition of a stream's topic."""

    def sent(stream: str, texts: list[str]) -> None:
        lines = "".join(f'{{"payload": "{encoded(text)}"}}\n' for text in texts)
        path = f"/streams/{stream}/topics/t/messages?partition_id=0"
        answer = api.post(path, content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert answer.json() == {"messages_count": len(texts)}, answer.text

    return sent


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
