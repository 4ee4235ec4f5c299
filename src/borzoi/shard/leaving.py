"""Removes disconnected clients from their groups."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from borzoi.metadata.groups import ClientGone
from borzoi.metadata.proposals import Proposal
from borzoi.model.errors import BorzoiError, ShardUnavailable
from borzoi.model.identifiers import ROOT_USER_ID

log = logging.getLogger(__name__)

#: The pause before another attempt to remove a client from its groups.
LEAVE_AGAIN_SECONDS: Final = 0.1


async def leave_groups(
    submit: Callable[[Proposal], Awaitable[object]],
    client_id: int,
    is_gone: Callable[[], bool] = lambda: True,
) -> None:
    """Remove a disconnected client from its groups, retrying while shards are missing; stop if
    another client has got its id meanwhile."""
    while True:
        try:
            await submit(Proposal(ClientGone(client_id), ROOT_USER_ID))
        except ShardUnavailable:
            await asyncio.sleep(LEAVE_AGAIN_SECONDS)
            if is_gone():
                continue
        except BorzoiError as fault:
            log.warning("could not remove client %d from its groups: %s", client_id, fault)
        return
