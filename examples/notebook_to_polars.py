"""A topic as a data frame, as in a notebook: no event loop, no consumer."""

import sys

import polars as pl

import borzoi
from borzoi.client import JSON, Client

SERVER = "borzoi://iggy:iggy@127.0.0.1:8090"


def main(server: str = SERVER) -> None:
    with Client(server) as client:
        client.ensure_topic("shop/readings")
        client.purge_topic("shop/readings")
        with client.producer("shop/readings", codec=JSON, background=True) as producer:
            for number in range(1000):
                producer.send({"sensor": number % 3, "degrees": number / 10}, partition=0)

    frame: pl.DataFrame = borzoi.read("shop/readings", server=server).to_polars()
    readings = frame.select(
        pl.col("payload")
        .cast(pl.String)
        .str.json_decode(pl.Struct({"sensor": pl.Int64, "degrees": pl.Float64}))
        .struct.unnest()
    )
    for sensor, highest in readings.group_by("sensor").agg(pl.max("degrees")).sort("sensor").rows():
        print(f"sensor {sensor}: {highest}")


if __name__ == "__main__":
    main(*sys.argv[1:])
