"""``borzoi``: one command, and a sub-command for each thing it does.

Sub-commands are imported when they are asked for, so that ``borzoi --help`` stays quick and the
server never loads what only a tool needs.
"""

import os
from importlib import import_module

import click

from borzoi import __version__

# Before anything loads numpy: nobody here multiplies matrices, and its library for that would start
# a thread for each processor of the machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

#: Name of the sub-command → where it lives.
COMMANDS = {
    "serve": "borzoi.server.arguments:serve",
    "config": "borzoi.server.config_command:config",
    "log": "borzoi.tools.command:log",
    "import": "borzoi.tools.command:import_",
    "archive": "borzoi.tools.archive_command:archive",
    "storage": "borzoi.tools.storage_command:storage",
    "reset-root-password": "borzoi.tools.root_password:reset_root_password",
    "simulate": "borzoi.simulator.command:simulate",
    "pipeline": "borzoi.spark.commands:pipeline",
    "job": "borzoi.spark.job_commands:job",
    "spark": "borzoi.spark.cluster_commands:spark",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="borzoi")
def main() -> None:
    """A persistent message-streaming platform that speaks the Apache Iggy 0.8 protocol."""


if __name__ == "__main__":
    main(prog_name="borzoi")
