"""Server-sent events, heard by the `EventSource` of a browser: while the network and the server go
away and come back, each message is heard once."""

import json

import pytest

from borzoi.testing import Proxy

pytestmark = pytest.mark.browser

LISTENS = """
    window.heard = [];
    window.opened = 0;
    const query = new URLSearchParams({partition_id: 0, kind: "first", access_token: %(token)s});
    window.source = new EventSource(`/streams/%(stream)s/topics/t/messages/stream?${query}`);
    source.onopen = () => { opened += 1; };
    source.onmessage = (event) => {
        const message = JSON.parse(event.data);
        heard.push([Number(event.lastEventId), message.header.offset, atob(message.payload)]);
    };
    null;
"""


def expected(texts):
    return [[offset, offset, text] for offset, text in enumerate(texts)]


def test_a_tail_goes_on_where_it_was_cut(browser, server, api, send):
    api.create_topic("tail")
    texts = [f"message {number}" for number in range(12)]
    send("tail", texts[:2])
    with Proxy(server.addresses["http"]) as proxy:
        page = browser.opened("http://{}:{}/docs".format(*proxy.address))
        page.evaluated(LISTENS % {"token": json.dumps(api.token), "stream": "tail"})
        page.until("heard.length === 2")
        for text in texts[2:6]:  # they arrive while it listens
            send("tail", [text])
        page.until("heard.length === 6")
        connections = proxy.connections
        proxy.drop()
        send("tail", texts[6:9])  # nothing listens; the browser reconnects on its own
        page.until("heard.length >= 9 && opened >= 2")
        assert proxy.connections > connections >= 1
        assert server.stop() == 0
        server.start()
        send("tail", texts[9:])
        page.until("heard.length >= 12 && opened >= 3")
        assert page.evaluated("heard") == expected(texts)
        page.evaluated("source.close()")


def test_a_page_without_a_token_hears_nothing(browser, server, api):
    api.create_topic("closed")
    page = browser.opened("http://{}:{}/docs".format(*server.addresses["http"]))
    page.evaluated(LISTENS % {"token": json.dumps("none"), "stream": "closed"})
    # A status that is not 200 ends it for good, as the standard says.
    page.until("source.readyState === EventSource.CLOSED")
    assert page.evaluated("[opened, heard.length]") == [0, 0]
