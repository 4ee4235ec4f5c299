"""Partitions: added at the end, removed from the end."""

from borzoi.handlers.call import Call
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions


async def create_partitions(request: CreatePartitions, call: Call) -> None:
    await call.submit(request)


async def delete_partitions(request: DeletePartitions, call: Call) -> None:
    await call.submit(request)
