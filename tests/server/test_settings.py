from borzoi.server.config import KEYS
from borzoi.server.settings import Settings


def test_every_key_says_what_it_means_and_its_default_is_valid() -> None:
    for key in KEYS:
        assert key.declaration.meaning
        key.declaration.kind.parse(key.declaration.default)
    assert len({key.path for key in KEYS}) == len(KEYS)
    assert Settings().tcp.address == ("127.0.0.1", 8090)
    assert Settings().system.partition.acknowledge == "written"
