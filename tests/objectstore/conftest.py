"""One fixture for every kind of store; the real servers among them start once a run."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import obstore.store
import pytest
import pytest_asyncio
from tests.support.object_servers import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    TIMING,
    azure_place,
    azurite_server,
    moto_server,
    new_place,
    rclone_server,
    seaweed_server,
)

from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.locations import Location, open_store
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.obstore_adapter import ObstoreStore

KINDS = [
    "memory",
    "directory",
    "obstore-memory",
    "obstore-local",
    "moto",
    pytest.param("seaweedfs", marks=pytest.mark.object),
    pytest.param("azurite", marks=pytest.mark.object),
]


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def seaweed_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with seaweed_server(tmp_path_factory.mktemp("seaweed")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def rclone_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rclone_server(tmp_path_factory.mktemp("rclone")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def azurite_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with azurite_server(tmp_path_factory.mktemp("azurite")) as endpoint:
        yield endpoint


@pytest.fixture
def azurite(azurite_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Location:
    """An empty store at Azurite."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", AZURE_ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
    return azure_place(azurite_endpoint)


@pytest.fixture
def moto(moto_endpoint: str) -> Location:
    """An empty store at moto."""
    return new_place(moto_endpoint)


@pytest_asyncio.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    match request.param:
        case "memory":
            made: ObjectStore = MemoryStore()
        case "directory":
            made = DirectoryStore(tmp_path)
        case "obstore-memory":
            memory = obstore.store.MemoryStore()
            made = ObstoreStore(memory, memory)
        case "obstore-local":
            # It behaves as Google's and Azure's stores do: deleting what is not there fails.
            local = obstore.store.LocalStore(tmp_path, mkdir=True)
            made = ObstoreStore(local, local, is_ordered=False)
        case "moto":
            location = new_place(request.getfixturevalue("moto_endpoint"))
            made = open_store(location, TIMING)
        case "azurite":
            made = open_store(request.getfixturevalue("azurite"), TIMING)
        case _:
            location = new_place(request.getfixturevalue("seaweed_endpoint"))
            made = open_store(location, TIMING)
    yield made
    await made.close()
