from borzoi.server.config import KEYS
from borzoi.server.settings import Settings

TRANSPORTS = {"tcp", "quic", "http", "websocket"}


def test_every_transport_listens_on_loopback_at_a_port_of_its_own() -> None:
    settings = Settings()
    addresses = [getattr(settings, name).address for name in sorted(TRANSPORTS)]
    assert [host for host, _ in addresses] == ["127.0.0.1"] * len(TRANSPORTS)
    assert len({port for _, port in addresses}) == len(TRANSPORTS)


def test_the_keys_that_sign_tokens_are_shown_to_nobody() -> None:
    secret = {key.path for key in KEYS if key.declaration.secret}
    ours = {path for path in secret if path.partition(".")[0] in TRANSPORTS}
    assert ours == {"http.jwt.encoding_secret", "http.jwt.decoding_secret"}
