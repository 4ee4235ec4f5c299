"""The binary protocol over the `WebSocket` of a browser."""

import base64
import json

import pytest

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.buffers import Reader
from borzoi.protocol.commands.messages import PolledMessages, PollMessages, SendMessages
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request
from borzoi.records.message import Message, decode_messages, encode_messages

pytestmark = pytest.mark.browser

EXCHANGES = """
    new Promise((resolve) => {
        const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt());
        const messages = %(messages)s.map(bytes);
        const socket = new WebSocket(%(address)s);
        const answers = [];
        socket.binaryType = "arraybuffer";
        socket.onopen = () => { for (const message of messages) socket.send(message); };
        socket.onmessage = ({data}) => {
            const letters = Array.from(new Uint8Array(data), (one) => String.fromCharCode(one));
            answers.push(btoa(letters.join("")));
            if (answers.length === %(expected)d) socket.close(1000);
        };
        socket.onclose = ({code, wasClean}) => resolve({answers, code, wasClean});
    })
"""
LOGIN = encode_request(LoginUser("iggy", "iggy"))
CONSUMER = Consumer(ConsumerKind.CONSUMER, 1)


def exchanged(browser, server, messages, expected):
    """What a page receives on one connection; it closes after this many answers."""
    page = browser.opened("http://{}:{}/docs".format(*server.addresses["http"]))
    found = page.evaluated(
        EXCHANGES
        % {
            "address": json.dumps("ws://{}:{}/".format(*server.addresses["websocket"])),
            "messages": json.dumps([base64.b64encode(one).decode() for one in messages]),
            "expected": expected,
        }
    )
    answers = [base64.b64decode(answer) for answer in found["answers"]]
    return [opened(answer) for answer in answers], found["code"], found["wasClean"]


def opened(answer):
    """Status and payload; one answer is exactly one message."""
    status, length = RESPONSE_PREFIX.unpack_from(answer)
    payload = answer[RESPONSE_PREFIX.size :]
    assert len(payload) == length
    return status, payload


def send_of(stream, payloads):
    indexes, body = encode_messages([Message(payload) for payload in payloads])
    where = Partitioning.partition(0)
    views = memoryview(indexes), memoryview(body)
    return encode_request(SendMessages(stream, "t", where, len(payloads), *views))


def test_login_ping_send_and_poll(browser, server, api):
    api.create_topic("wired")
    payloads = [bytes([number]) * (number * 100) for number in range(1, 200)]
    poll = PollMessages(CONSUMER, "wired", "t", 0, PollingStrategy.first(), 1000)
    requests = [LOGIN, encode_request(Ping()), send_of("wired", payloads), encode_request(poll)]
    answers, code, clean = exchanged(browser, server, requests, 4)
    assert (code, clean) == (1000, True)
    assert [status for status, _ in answers] == [0, 0, 0, 0]
    polled = PolledMessages.decode(Reader(answers[3][1]))
    assert polled.messages_count == len(payloads)
    assert [bytes(one.payload) for one in decode_messages(polled.messages)] == payloads


def test_frames_may_be_cut_anywhere(browser, server):
    stream = LOGIN + encode_request(Ping()) * 3
    pieces = [stream[start : start + 7] for start in range(0, len(stream), 7)]
    answers, code, clean = exchanged(browser, server, pieces, 4)
    assert (code, clean) == (1000, True)
    assert [status for status, _ in answers] == [0, 0, 0, 0]


def test_who_has_not_logged_in_is_told(browser, server):
    poll = PollMessages(CONSUMER, "nowhere", "t", 0, PollingStrategy.first(), 1)
    answers, code, _ = exchanged(browser, server, [encode_request(poll)], 1)
    assert (answers, code) == ([(40, b"")], 1000)
