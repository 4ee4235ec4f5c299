"""The same message sent twice is stored once, by a server that drops duplicates.

Start it with BORZOI_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED=true. The id comes from the business: an
order number, the hash of a file. A program that does not know whether its last message arrived just
sends it again. Reading is the other half: the result and the offset are written together.
"""

import asyncio
import sqlite3
import sys
import zlib

from borzoi.client import AsyncClient

SERVER = "borzoi://iggy:iggy@127.0.0.1:8090"


def id_of(payment: str) -> int:
    return 1 + zlib.crc32(payment.encode())


async def main(server: str = SERVER, database: str = ":memory:") -> None:
    book = sqlite3.connect(database)
    book.execute("create table if not exists payments (what text)")
    book.execute("create table if not exists progress (partition primary key, offset)")
    async with AsyncClient(server) as client:
        await client.ensure_topic("shop/payments")
        async with client.producer("shop/payments") as producer:
            for payment in ("ada pays 5", "bob pays 7", "ada pays 5"):
                await producer.send(payment, partition=0, id=id_of(payment))

        done = book.execute("select offset from progress where partition = 0").fetchone()
        async for message in client.consumer(
            "shop/payments", partitions=[0], begin=0 if done is None else done[0] + 1, follow=False
        ):
            with book:
                book.execute("insert into payments values (?)", [message.text()])
                book.execute("replace into progress values (0, ?)", [message.offset])
    for (what,) in book.execute("select what from payments"):
        print(what)
    book.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
