"""Settings of listeners that cannot work are reported before a start, each with a reason."""

from pathlib import Path

import pytest
from tests.support.starts import settings_with

from borzoi.model.errors import InvalidConfiguration

ISSUER = {
    "HTTP_JWT_TRUSTED_ISSUERS_0_ISSUER": "them",
    "HTTP_JWT_TRUSTED_ISSUERS_0_AUDIENCE": "us",
    "HTTP_JWT_TRUSTED_ISSUERS_0_JWKS_URL": "https://them.example/keys",
    "HTTP_JWT_TRUSTED_ISSUERS_0_USER_ID": "3",
}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"HTTP_ADDRESS": "localhost:3000"}, r"^http\.address: 'localhost' is not an address"),
        ({"WEBSOCKET_ADDRESS": "here:1"}, r"^websocket\.address: 'here' is not an address"),
        ({"QUIC_ADDRESS": "here:1"}, r"^quic\.address: 'here' is not an address"),
        ({"HTTP_TLS_ENABLED": "true"}, r"^http\.tls\.cert_file: .* is not there"),
        (
            {"WEBSOCKET_TLS_ENABLED": "true", "WEBSOCKET_TLS_SELF_SIGNED": "false"},
            r"^websocket\.tls\.cert_file: .* and websocket\.tls\.self_signed is false",
        ),
        ({"HTTP_MAX_REQUEST_SIZE": "0"}, r"^http\.max_request_size: 0 B is not allowed"),
        ({"HTTP_MAX_REQUEST_SIZE": "1 GiB"}, r"^http\.max_request_size: .* to 512 MiB"),
        ({"HTTP_METRICS_ENDPOINT": "metrics"}, r"^http\.metrics\.endpoint: 'metrics'"),
        ({"HTTP_JWT_ACCESS_TOKEN_EXPIRY": "default"}, r"^http\.jwt\.access_token_expiry"),
        ({"HTTP_JWT_ACCESS_TOKEN_EXPIRY": "10 ms"}, r"^http\.jwt\.access_token_expiry: is below"),
        ({**ISSUER, "HTTP_JWT_TRUSTED_ISSUERS_0_AUDIENCE": ""}, r"'them'\): each needs"),
        (
            {**ISSUER, "HTTP_JWT_TRUSTED_ISSUERS_0_JWKS_URL": "keys"},
            r"'them'\): jwks_url is 'keys'",
        ),
        ({**ISSUER, "HTTP_JWT_VALID_ISSUERS": "them"}, r"'them'\): is one of"),
        ({"HTTP_CORS_ALLOWED_METHODS": "GET,FETCH"}, r"allowed_methods: 'FETCH' is none of"),
        ({"HTTP_CORS_ALLOWED_ORIGINS": "http://ä.example"}, r"allowed_origins: .* in a header"),
        ({"HTTP_CORS_ALLOW_CREDENTIALS": "true"}, r"^http\.cors\.allow_credentials is true"),
    ],
)
def test_what_cannot_work_is_told_with_its_key(
    tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        settings_with(tmp_path, **settings)


def test_what_is_switched_off_is_not_judged(tmp_path: Path) -> None:
    settings_with(tmp_path, HTTP_ENABLED="false", HTTP_MAX_REQUEST_SIZE="0")
    settings_with(tmp_path, HTTP_CORS_ENABLED="false", HTTP_CORS_ALLOW_CREDENTIALS="true")
    settings_with(tmp_path, HTTP_METRICS_ENABLED="false", HTTP_METRICS_ENDPOINT="x")


def test_what_works_is_taken(tmp_path: Path) -> None:
    settings_with(tmp_path, **ISSUER)
    settings_with(tmp_path, HTTP_ADDRESS="[::]:3000", HTTP_JWT_ACCESS_TOKEN_EXPIRY="none")
    settings_with(
        tmp_path, HTTP_CORS_ALLOW_CREDENTIALS="true", HTTP_CORS_ALLOWED_ORIGINS="http://one.example"
    )
