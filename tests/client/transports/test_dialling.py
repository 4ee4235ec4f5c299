"""The transport that a connection string means."""

import pytest

from borzoi.client.connection_string import SCHEMES, parse
from borzoi.client.transports.dialling import async_dial, dial
from borzoi.model.errors import FeatureUnavailable
from borzoi.model.system import TransportKind

OTHERS = sorted(name for name, kind in SCHEMES.items() if kind is not TransportKind.TCP)


@pytest.mark.parametrize("scheme", OTHERS)
async def test_a_transport_that_is_not_there_is_told_in_one_sentence(scheme: str) -> None:
    options = parse(f"{scheme}://localhost")
    (address,) = options.addresses
    with pytest.raises(FeatureUnavailable, match=options.transport.name):
        await async_dial(address, options)
    with pytest.raises(FeatureUnavailable, match="borzoi:// connects by TCP"):
        dial(address, options)
