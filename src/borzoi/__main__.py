"""``borzoi``: one command, and a sub-command for each thing it does.

Sub-commands are imported when they are called, so that ``borzoi --help`` stays quick and the server
never loads what only a tool needs.
"""

import os
from pathlib import Path
from typing import Any, Final

import click

from borzoi import __version__
from borzoi.cli.global_options import global_options, write_trace
from borzoi.command_tree import CommandTree, LazyCommand

# Before anything imports numpy: borzoi does no linear algebra, and numpy's BLAS would start a
# thread for each processor of the machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# fmt: off
COMMANDS: Final = {
    "serve":    LazyCommand("borzoi.server.arguments:serve", "Start the server."),
    "stream":   LazyCommand("borzoi.cli.streams:stream", "Streams, which hold topics.", ("s",)),
    "topic":    LazyCommand("borzoi.cli.topics:topic", "Topics, which hold messages.", ("t",)),
    "message":  LazyCommand("borzoi.cli.messages:message", "Send and poll messages.", ("m",)),
    "send":     LazyCommand("borzoi.cli.tailing:send", "Send messages to STREAM/TOPIC."),
    "tail":     LazyCommand("borzoi.cli.tailing:tail", "Show the end of a topic, and follow it."),
    "read":     LazyCommand("borzoi.cli.transferring:read", "Write a topic to a file."),
    "load":     LazyCommand("borzoi.cli.transferring:load", "Send the rows of a file to a topic."),
    "replay":   LazyCommand("borzoi.cli.transferring:replay", "Send a topic to another."),
    "lag":      LazyCommand("borzoi.cli.lag:lag", "How far consumer groups are behind."),
    "partition": LazyCommand("borzoi.cli.partitions:partition", "Partitions of a topic.", ("p",)),
    "segment":  LazyCommand("borzoi.cli.partitions:segment", "Files of a partition.", ("seg",)),
    "consumer-group": LazyCommand(
        "borzoi.cli.groups:consumer_group", "Readers that share.", ("g",)),
    "consumer-offset": LazyCommand(
        "borzoi.cli.groups:consumer_offset", "How far they read.", ("o",)),
    "user":     LazyCommand("borzoi.cli.users:user", "Users and their permissions.", ("u",)),
    "pat":      LazyCommand("borzoi.cli.tokens:pat", "Personal access tokens."),
    "login":    LazyCommand("borzoi.cli.tokens:login", "Log in for later commands.", ("li",)),
    "logout":   LazyCommand("borzoi.cli.tokens:logout", "End that session.", ("lo",)),
    "context":  LazyCommand("borzoi.cli.contexts:context", "Named connection options.", ("ctx",)),
    "client":   LazyCommand("borzoi.cli.system:client", "Connections to the server.", ("c",)),
    "cluster":  LazyCommand("borzoi.cli.system:cluster", "The nodes of a cluster.", ("cl",)),
    "ping":     LazyCommand("borzoi.cli.system:ping", "Check that a server responds."),
    "me":       LazyCommand("borzoi.cli.system:me", "This connection, as the server sees it."),
    "stats":    LazyCommand("borzoi.cli.system:stats", "What the server is doing."),
    "snapshot": LazyCommand("borzoi.cli.system:snapshot", "Save diagnostics for support."),
    "top":      LazyCommand("borzoi.cli.top:top", "Watch a server, live."),
    "doctor":   LazyCommand("borzoi.cli.doctor:doctor", "Check this machine and the server."),
    "demo":     LazyCommand("borzoi.cli.demo:demo", "Fill a stream with sample data."),
    "generate": LazyCommand("borzoi.cli.generating:generate", "Files to monitor a server with."),
    "completion": LazyCommand("borzoi.cli.completion:completion", "Completion script of a shell."),
    "bench":    LazyCommand("borzoi.bench.command:bench", "Load a server and report what it does."),
    "config":   LazyCommand("borzoi.server.config_command:config", "Check and show settings."),
    "log":      LazyCommand("borzoi.tools.command:log", "Verify and repair files of a server."),
    "import":   LazyCommand("borzoi.tools.command:import_", "Import data of another server."),
    "archive": LazyCommand(
        "borzoi.tools.archive_command:archive", "Inspect and restore archives."),
    "storage": LazyCommand(
        "borzoi.tools.storage_command:storage", "Test an object store."),
    "reset-root-password": LazyCommand(
        "borzoi.tools.root_password:reset_root_password", "Replace a lost password of root."),
    "pipeline": LazyCommand("borzoi.spark.commands:pipeline", "Run pipelines on Spark."),
    "job": LazyCommand(
        "borzoi.spark.job_commands:job", "Archive, copy, replay topics on Spark."),
    "spark":    LazyCommand("borzoi.spark.cluster_commands:spark", "Prepare Spark for borzoi."),
    "simulate": LazyCommand("borzoi.simulator.command:simulate", "Simulate a cluster with faults."),
}
# fmt: on


@click.group(
    cls=CommandTree,
    entries=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="borzoi")
@click.option("--generate", type=click.Choice(["bash", "zsh", "fish"]), help="Completion script.")
@global_options
@click.pass_context
def main(
    context: click.Context, /, quiet: bool, debug: Path | None, generate: str | None, **options: Any
) -> None:
    """A persistent message-streaming platform that speaks the Apache Iggy 0.8 protocol."""
    if context.invoked_subcommand == "serve":
        # A server needs no client, which would double the memory of a supervisor.
        return
    from borzoi.cli.connecting import Connecting

    if debug is not None:
        write_trace(debug)
    context.obj = Connecting(options, quiet)
    if generate is not None:
        from borzoi.cli.completion import script_of

        click.echo(script_of(generate))
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())
        # As click does it for a group without a command.
        context.exit(2)


if __name__ == "__main__":
    main(prog_name="borzoi")
