"""``borzoi completion``: completion scripts for shells; they complete live names as well."""

import click
from click.shell_completion import CompletionItem, get_completion_class

from borzoi.cli.faults import CommandFailed, Exit

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_BORZOI_COMPLETE"
#: In seconds: the user is waiting at the prompt.
PATIENCE_SECONDS = 0.5


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell: source <(borzoi completion bash)."""
    click.echo(script_of(shell))


def script_of(shell: str) -> str:
    """Return the completion script of the running command."""
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    if kind is None:
        raise CommandFailed(f"there is no completion for {shell}", Exit.INVALID)
    return kind(root, {}, "borzoi", VARIABLE).source()


def live_streams(incomplete: str) -> list[CompletionItem]:
    """Names of streams; nothing when no server answers at once."""
    return [CompletionItem(name) for name in _names() if name.startswith(incomplete)]


def live_topics(incomplete: str) -> list[CompletionItem]:
    """Return ``stream/topic`` names once a stream was typed; before that, streams and a slash."""
    stream, slash, _ = incomplete.partition("/")
    if not slash:
        return [CompletionItem(f"{name}/") for name in _names() if name.startswith(incomplete)]
    return [
        CompletionItem(found)
        for name in _names(stream)
        if (found := f"{stream}/{name}").startswith(incomplete)
    ]


def _names(stream: str | None = None) -> list[str]:
    from borzoi.cli.connecting import Connecting
    from borzoi.client import Client
    from borzoi.model.errors import BorzoiError

    try:
        options = Connecting().client_options()
        with Client(options, timeout=PATIENCE_SECONDS, connect_timeout=PATIENCE_SECONDS) as client:
            if stream is None:
                return [one.name for one in client.get_streams()]
            return [one.name for one in client.get_topics(stream)]
    except (BorzoiError, click.ClickException):
        return []
