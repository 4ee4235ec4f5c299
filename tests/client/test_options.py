"""Options are values that reject invalid combinations."""

import pytest

from borzoi.client.options import Address, Options
from borzoi.model.errors import InvalidConnectionString


@pytest.mark.parametrize(
    ("address", "text"), [(Address("h", 1), "h:1"), (Address("::1", 2), "[::1]:2")]
)
def test_an_address_reads_like_one(address: Address, text: str) -> None:
    assert str(address) == text


@pytest.mark.parametrize(
    "given", [{"addresses": ()}, {"timeout": 0}, {"timeout": -1.0}, {"connect_timeout": 1e12}]
)
def test_impossible_options_are_refused(given: dict) -> None:
    with pytest.raises(InvalidConnectionString):
        Options(**given)
