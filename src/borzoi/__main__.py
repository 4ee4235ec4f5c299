"""``borzoi``: one command, and a sub-command for each thing it does.

Sub-commands are imported when they are called, so that ``borzoi --help`` stays quick and the server
never loads what only a tool needs.
"""

import os
from typing import Any, Final

import click

from borzoi import __version__
from borzoi.cli.tree import CommandTree, Entry

# Before anything loads numpy: no matrices are multiplied here, and its library for that would start
# a thread for each processor of the machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# fmt: off
COMMANDS: Final = {
    "serve":    Entry("borzoi.server.arguments:serve", "Start the server."),
    "stream":   Entry("borzoi.cli.streams:stream", "Streams, which hold topics.", ("s",)),
    "topic":    Entry("borzoi.cli.topics:topic", "Topics, which hold messages.", ("t",)),
    "message":  Entry("borzoi.cli.messages:message", "Send and poll messages.", ("m",)),
    "send":     Entry("borzoi.cli.tailing:send", "Send messages to STREAM/TOPIC."),
    "tail":     Entry("borzoi.cli.tailing:tail", "Show the end of a topic, and follow it."),
    "read":     Entry("borzoi.cli.transferring:read", "Write a topic to a file."),
    "load":     Entry("borzoi.cli.transferring:load", "Send the rows of a file to a topic."),
    "replay":   Entry("borzoi.cli.transferring:replay", "Send a topic to another."),
    "lag":      Entry("borzoi.cli.lag:lag", "How far consumer groups are behind."),
    "partition": Entry("borzoi.cli.partitions:partition", "Partitions of a topic.", ("p",)),
    "segment":  Entry("borzoi.cli.partitions:segment", "Files of a partition.", ("seg",)),
    "consumer-group": Entry("borzoi.cli.groups:consumer_group", "Readers that share.", ("g",)),
    "consumer-offset": Entry("borzoi.cli.groups:consumer_offset", "How far they read.", ("o",)),
    "user":     Entry("borzoi.cli.users:user", "Users and their permissions.", ("u",)),
    "pat":      Entry("borzoi.cli.tokens:pat", "Personal access tokens."),
    "login":    Entry("borzoi.cli.tokens:login", "Log in for later commands.", ("li",)),
    "logout":   Entry("borzoi.cli.tokens:logout", "End that session.", ("lo",)),
    "context":  Entry("borzoi.cli.contexts:context", "Named connection options.", ("ctx",)),
    "client":   Entry("borzoi.cli.system:client", "Connections to the server.", ("c",)),
    "cluster":  Entry("borzoi.cli.system:cluster", "The nodes of a cluster.", ("cl",)),
    "ping":     Entry("borzoi.cli.system:ping", "Ask for a sign of life."),
    "me":       Entry("borzoi.cli.system:me", "This connection, as the server sees it."),
    "stats":    Entry("borzoi.cli.system:stats", "What the server is doing."),
    "snapshot": Entry("borzoi.cli.system:snapshot", "Save what a person who helps needs."),
    "top":      Entry("borzoi.cli.top:top", "Watch a server, live."),
    "doctor":   Entry("borzoi.cli.doctor:doctor", "Check this machine and the server."),
    "demo":     Entry("borzoi.cli.demo:demo", "Fill a stream with something to look at."),
    "completion": Entry("borzoi.cli.completion:completion", "Completion script of a shell."),
    "bench":    Entry("borzoi.bench.command:bench", "Load a server and report what it does."),
    "config":   Entry("borzoi.server.config_command:config", "Check and show settings."),
    "log":      Entry("borzoi.tools.command:log", "Verify and repair files of a server."),
    "import":   Entry("borzoi.tools.command:import_", "Take over data of another server."),
    "archive":  Entry("borzoi.tools.archive_command:archive", "Look into archives, restore them."),
    "storage":  Entry("borzoi.tools.storage_command:storage", "Try what an object store can do."),
    "reset-root-password": Entry(
        "borzoi.tools.root_password:reset_root_password", "Replace a lost password of root."),
    "pipeline": Entry("borzoi.spark.commands:pipeline", "Run pipelines on Spark."),
    "job":      Entry("borzoi.spark.job_commands:job", "Archive, copy, replay topics on Spark."),
    "spark":    Entry("borzoi.spark.cluster_commands:spark", "Prepare Spark for borzoi."),
    "simulate": Entry("borzoi.simulator.command:simulate", "Try to break replication."),
}
# fmt: on


@click.group(
    cls=CommandTree, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, "-V", "--version", prog_name="borzoi")
@click.option("--server", envvar="BORZOI_SERVER", help="Connection string, borzoi://user:pw@host.")
@click.option("--transport", type=click.Choice(["tcp", "quic", "http", "ws"]))
@click.option("--tcp-server-address", metavar="HOST:PORT", help="[default: 127.0.0.1:8090]")
@click.option("--tcp-tls-enabled", is_flag=True)
@click.option("--tcp-tls-domain")
@click.option("--http-api-url", help="[default: http://localhost:3000]")
@click.option("--quic-server-address", metavar="HOST:PORT", help="[default: 127.0.0.1:8080]")
@click.option("--websocket-server-address", metavar="HOST:PORT", help="[default: 127.0.0.1:8092]")
@click.option("-u", "--username", "--credentials-username")
@click.option("-p", "--password", "--credentials-password", help="Asked for unless given.")
@click.option("-t", "--token", help="A personal access token.")
@click.option("-n", "--token-name", help="The name of a token that was stored.")
@click.option("-q", "--quiet", is_flag=True, help="Print results only.")
@click.pass_context
def main(context: click.Context, /, quiet: bool, **options: Any) -> None:
    """A persistent message-streaming platform that speaks the Apache Iggy 0.8 protocol."""
    from borzoi.cli.connecting import Connecting

    context.obj = Connecting(options, quiet)


if __name__ == "__main__":
    main(prog_name="borzoi")
