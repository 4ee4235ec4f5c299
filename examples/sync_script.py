"""The blocking client in a script: the same methods without await."""

import sys

from borzoi.client import Client
from borzoi.model.errors import TopicNotFound

SERVER = "borzoi://iggy:iggy@127.0.0.1:8090"


def main(server: str = SERVER) -> None:
    with Client(server) as client:
        client.ensure_topic("shop/log", partitions=2)
        client.send_messages("shop/log", ["first", "second"], partition=0)
        polled = client.poll_messages("shop/log", partition=0, start="last", count=2)
        print([message.text() for message in polled])
        try:
            client.send_messages("shop/nothing", ["lost"])
        except TopicNotFound as fault:
            print(f"{fault.code} {fault.name}: {fault.message}")


if __name__ == "__main__":
    main(*sys.argv[1:])
