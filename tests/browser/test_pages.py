"""The page at `/docs`, and calls from a page of another origin."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytestmark = pytest.mark.browser


def test_the_guide_shows_every_route_and_makes_calls(browser, server):
    origin = "http://{}:{}".format(*server.addresses["http"])
    page = browser.opened(f"{origin}/docs")
    page.until("document.querySelector('details')")
    routes = page.evaluated(
        "fetch('/openapi.json').then((answer) => answer.json()).then(({paths}) =>"
        " Object.values(paths).reduce((sum, one) => sum + Object.keys(one).length, 0))"
    )
    assert page.evaluated("document.querySelectorAll('details').length") == routes > 40
    # The token of a login is kept for the next call.
    page.evaluated(
        "document.querySelector('#LoginUser textarea').value ="
        " JSON.stringify({username: 'iggy', password: 'iggy'})"
    )
    page.clicked("#LoginUser button")
    page.until("document.getElementById('token').value.startsWith('ey')")
    page.clicked("#GetStreams button")
    page.until("document.querySelector('#GetStreams pre').textContent.startsWith('200 OK')")
    assert page.faults == []
    # Nothing is fetched from anywhere else.
    assert all(address.startswith((origin, "data:")) for address in page.requests)


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b'<!doctype html><link rel="icon" href="data:,"><title>elsewhere</title>')

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def elsewhere():
    """A page of another origin."""
    # With daemon threads: a browser opens connections that it may never use.
    pages = ThreadingHTTPServer(("127.0.0.1", 0), _Blank)
    thread = threading.Thread(target=pages.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{pages.server_address[1]}/"
    finally:
        pages.shutdown()
        thread.join()
        pages.server_close()


CALLS = """
    async (origin) => {
        const headers = {"Content-Type": "application/json"};
        const body = JSON.stringify({username: "iggy", password: "iggy"});
        const login = await fetch(`${origin}/users/login`, {method: "POST", headers, body});
        headers.Authorization = `Bearer ${(await login.json()).access_token.token}`;
        const users = await (await fetch(`${origin}/users`, {headers})).json();
        return users.map((user) => user.username);
    }
"""


def test_a_page_of_another_origin_may_call(browser, server):
    """A call with a token and a JSON body is one that a browser asks about first."""
    origin = "http://{}:{}".format(*server.addresses["http"])
    with elsewhere() as address:
        page = browser.opened(address)
        found = page.evaluated(f"({CALLS})({json.dumps(origin)})")
    assert found == ["iggy"]
    assert page.faults == []
