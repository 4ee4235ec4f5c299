"""Changes of the metadata to which a handler adds nothing: the request is the command."""

from typing import Any

from borzoi.handlers.call import Call
from borzoi.metadata.effects import Created


async def submit(request: Any, call: Call) -> None:
    await call.submit(request)


async def create(request: Any, call: Call) -> Created:
    return await call.create(request)
