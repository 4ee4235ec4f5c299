"""Connect over QUIC with a client of 0.9 and print what it says.

Its protocol is another one, so its first request is refused; it can say so only when the handshake
is done and its stream was answered.
"""

import asyncio
import os
import sys

from apache_iggy import IggyClient


async def main(address: str) -> None:
    try:
        await IggyClient.from_connection_string(address).connect()
    except RuntimeError as fault:
        print(fault)
    else:
        print("connected")


asyncio.run(main(sys.argv[1]))
# Threads of the client are still running, and now and then one aborts an interpreter that ends.
sys.stdout.flush()
os._exit(0)
