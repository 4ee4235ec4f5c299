"""Clients that are gone leave their groups."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from borzoi.metadata.groups import ClientGone
from borzoi.metadata.proposals import Proposal
from borzoi.model.errors import BorzoiError, ShardUnavailable
from borzoi.model.identifiers import ROOT_USER_ID

log = logging.getLogger(__name__)

#: How soon a client that could not leave its groups tries again.
LEAVE_AGAIN_SECONDS: Final = 0.1


async def leave_groups(
    submit: Callable[[Proposal], Awaitable[object]],
    client_id: int,
    is_gone: Callable[[], bool] = lambda: True,
) -> None:
    """Take a client that is gone out of its groups, however long shards are missing for it; not a
    second time when another one has its number by then."""
    while True:
        try:
            await submit(Proposal(ClientGone(client_id), ROOT_USER_ID))
        except ShardUnavailable:
            await asyncio.sleep(LEAVE_AGAIN_SECONDS)
            if is_gone():
                continue
        except BorzoiError as fault:
            log.warning("client %d was not taken out of its groups: %s", client_id, fault)
        return
