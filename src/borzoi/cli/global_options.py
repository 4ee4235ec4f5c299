"""The options in front of every command: which server, as whom, how.

They are those of the published command line, so that scripts keep working, and a connection string.
Options for buffers and windows are accepted and ignored: the client has none to tune.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

#: Accepted and ignored.
TUNING: Final = (
    "--http-retries",
    "--quic-client-address",
    "--quic-max-concurrent-bidi-streams",
    "--quic-datagram-send-buffer-size",
    "--quic-initial-mtu",
    "--quic-send-window",
    "--quic-receive-window",
    "--quic-response-buffer-size",
    "--quic-keep-alive-interval",
    "--quic-max-idle-timeout",
)

# fmt: off
OPTIONS: Final = (
    click.option("--server", envvar="BORZOI_SERVER",
                 help="Connection string, borzoi://user:pw@host."),
    click.option("--transport", type=click.Choice(["tcp", "quic", "http", "ws"])),
    click.option("--tcp-server-address", metavar="HOST:PORT", help="[default: 127.0.0.1:8090]"),
    click.option("--tcp-tls-enabled", is_flag=True),
    click.option("--tcp-tls-domain"),
    click.option("--http-api-url", help="[default: http://localhost:3000]"),
    click.option("--quic-server-address", metavar="HOST:PORT", help="[default: 127.0.0.1:8080]"),
    click.option("--quic-server-name", help="The name in the server's certificate."),
    click.option("--quic-validate-certificate", is_flag=True),
    click.option("--websocket-server-address", metavar="HOST:PORT",
                 help="[default: 127.0.0.1:8092]"),
    click.option("--reconnection-max-retries", "--tcp-reconnection-max-retries",
                 "--quic-reconnection-max-retries", "--websocket-reconnection-max-retries",
                 "reconnection_retries", type=click.IntRange(0), hidden=True),
    click.option("--reconnection-interval", "--tcp-reconnection-interval",
                 "--quic-reconnection-interval", "--websocket-reconnection-interval",
                 "reconnection_interval", hidden=True),
    click.option("-u", "--username", "--credentials-username"),
    click.option("-p", "--password", "--credentials-password", help="Prompted for unless given."),
    click.option("-t", "--token", help="A personal access token."),
    click.option("-n", "--token-name", help="The name of a token that was stored."),
    click.option("-q", "--quiet", is_flag=True, help="Print results only."),
    click.option("-d", "--debug", type=click.Path(dir_okay=False, path_type=Path),
                 help="Write what the client does to this file."),
    *(click.option(name, hidden=True, expose_value=False) for name in TUNING),
)
# fmt: on


def global_options(function: Decorated) -> Decorated:
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def write_trace(path: Path) -> None:
    """Append all log records of borzoi to the file."""
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as fault:
        raise click.ClickException(f"{path} cannot be written: {fault.strerror}") from fault
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger("borzoi")
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
