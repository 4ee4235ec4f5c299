"""A real browser without a window: Chromium, driven over its DevTools protocol.

>>> with running_browser() as browser:                           # doctest: +SKIP
...     page = browser.opened("http://127.0.0.1:3000/docs")
...     page.until("document.querySelector('details')")
...     page.evaluated("document.title")
"""

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: These only end what hangs.
START_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = 120.0
LOOK_AGAIN_SECONDS = 0.02

OPTIONS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--window-size=1200,900",
)


class NoBrowser(RuntimeError):
    """There is nothing to drive."""


class PageFault(AssertionError):
    """A script of the page failed."""


def executable() -> str:
    """Where Chromium is: what `CHROMIUM` names, or the first of its usual names."""
    for name in (os.environ.get("CHROMIUM", ""), *NAMES):
        if name and (found := shutil.which(name)):
            return found
    raise NoBrowser(
        "these tests need Chromium: install it (Debian, Ubuntu: apt-get install chromium),"
        " or name it in the variable CHROMIUM"
    )


class Browser:
    """The protocol: numbered calls, and events in between."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        #: Of all pages, in the order they came.
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._socket.send(json.dumps(message))
        while True:
            received = json.loads(self._socket.recv(timeout=ANSWER_SECONDS_MAX))
            if received.get("id") != number:
                self.events.append(received)
                continue
            if "error" in received:
                raise PageFault(f"{method}: {received['error']}")
            result: dict[str, Any] = received["result"]
            return result

    def opened(self, address: str) -> "Page":
        """A new page that has loaded the address."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        failed = page.call("Page.navigate", url=address).get("errorText")
        if failed:
            raise PageFault(f"{address}: {failed}")
        page.until("document.readyState === 'complete'")
        return page


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def evaluated(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise PageFault(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait for an expression to be true."""
        until = time.monotonic() + ANSWER_SECONDS_MAX
        while not self.evaluated(f"Boolean({condition})"):
            if time.monotonic() > until:
                raise PageFault(f"it never came true: {condition}")
            time.sleep(LOOK_AGAIN_SECONDS)

    def clicked(self, selector: str) -> None:
        self.evaluated(f"document.querySelector({json.dumps(selector)}).click()")

    def pointed(self, selector: str) -> None:
        """Move the pointer to the middle of an element, as a hand would."""
        box = self.evaluated(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'center'}); const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])

    def screenshot(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == method
        ]

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for."""
        return [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]

    @property
    def faults(self) -> list[Any]:
        """Scripts that failed, and errors in the console."""
        logged = [event["entry"] for event in self._events("Log.entryAdded")]
        return [
            *(event["exceptionDetails"] for event in self._events("Runtime.exceptionThrown")),
            *(entry for entry in logged if entry["level"] == "error"),
        ]


@contextmanager
def running_browser() -> Iterator[Browser]:
    # Children of the browser may still write their last words when it has ended.
    with tempfile.TemporaryDirectory(prefix="borzoi-browser-", ignore_cleanup_errors=True) as home:
        # Its sandbox needs a user of its own, which root is not.
        more = ["--no-sandbox"] if os.geteuid() == 0 else []
        with (Path(home) / "output").open("wb") as output:
            process = subprocess.Popen(
                [executable(), *OPTIONS, *more, f"--user-data-dir={home}/profile", "about:blank"],
                env={**os.environ, "HOME": home},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            with connect(
                _address(process, Path(home)), max_size=None, compression=None, proxy=None
            ) as socket:
                yield Browser(socket)
        finally:
            # The whole group: the browser is a dozen processes.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _address(process: "subprocess.Popen[bytes]", home: Path) -> str:
    """Where the browser listens; it writes that into a file."""
    said = home / "profile" / "DevToolsActivePort"
    until = time.monotonic() + START_SECONDS_MAX
    while not (said.exists() and said.read_text().count("\n") >= 1):
        if process.poll() is not None or time.monotonic() > until:
            raise NoBrowser(f"Chromium did not start:\n{(home / 'output').read_text()}")
        time.sleep(LOOK_AGAIN_SECONDS)
    port, path = said.read_text().splitlines()
    return f"ws://127.0.0.1:{port}{path}"
