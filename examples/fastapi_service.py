"""A web service that stores its requests in a topic: `uvicorn fastapi_service:app`.

The client lives as long as the service; requests share its connection.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import BaseModel

from borzoi.client import AsyncClient, AsyncProducer

SERVER = os.environ.get("SERVER", "borzoi://iggy:iggy@127.0.0.1:8090")


class Order(BaseModel):
    customer: str
    item: str


class Service:
    producer: AsyncProducer[Order]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncClient(SERVER) as client:
        await client.ensure_topic("shop/web-orders", partitions=3)
        async with client.producer("shop/web-orders", codec=Order) as producer:
            Service.producer = producer
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def create_order(order: Order) -> dict[str, str]:
    await Service.producer.send(order, key=order.customer)
    return {"stored": order.item}
