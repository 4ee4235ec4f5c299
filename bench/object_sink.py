"""A server that answers S3 requests without storing anything: what remains is the client's cost.

python -m bench.object_sink     writes its port, and serves until its input ends
"""

import asyncio
import re
import sys

import uvloop

LENGTH = re.compile(rb"(?i)content-length: (\d+)")
RANGE = re.compile(rb"(?i)\r\nrange: bytes=(\d+)-(\d+)")
OBJECT = bytes(1024)
ETAG = (
    b'ETag: "d41d8cd98f00b204e9800998ecf8427e"\r\nLast-Modified: Tue, 17 Nov 2026 00:00:00 GMT\r\n'
)
BEGUN = (
    b"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>u</UploadId>"
    b"</InitiateMultipartUploadResult>"
)
COMPLETED = (
    b"<CompleteMultipartUploadResult><Location>l</Location><Bucket>b</Bucket><Key>k</Key>"
    b'<ETag>"d41d8cd98f00b204e9800998ecf8427e-8"</ETag></CompleteMultipartUploadResult>'
)


class Sink(asyncio.Protocol):
    def __init__(self) -> None:
        self._head = b""
        self._body_left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        while data:
            if self._body_left:
                taken = min(self._body_left, len(data))
                self._body_left -= taken
                data = data[taken:]
                if not self._body_left:
                    self._answer()
                continue
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            data, self._head = self._head[end + 4 :], self._head[: end + 4]
            length = LENGTH.search(self._head)
            self._body_left = int(length[1]) if length else 0
            if not self._body_left:
                self._answer()

    def _answer(self) -> None:
        head, self._head = self._head, b""
        line = head[: head.index(b"\r\n")]
        status, extra, body = b"200 OK", b"", b""
        if line.startswith(b"GET"):
            body = OBJECT
            asked = RANGE.search(head)
            if asked:
                start, last = int(asked[1]), min(int(asked[2]), len(OBJECT) - 1)
                status, body = b"206 Partial Content", OBJECT[start : last + 1]
                extra = b"Content-Range: bytes %d-%d/%d\r\n" % (start, last, len(OBJECT))
        elif b"uploads" in line:
            body = BEGUN
        elif line.startswith(b"POST"):
            body = COMPLETED
        self._transport.write(  # type: ignore[attr-defined]
            b"HTTP/1.1 %b\r\n%b%bContent-Length: %d\r\n\r\n%b"
            % (status, ETAG, extra, len(body), body)
        )


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(main())
