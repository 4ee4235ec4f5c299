"""Write the command reference of docs/cli.md from the same tree that `--help` prints.

python tools/cli_reference.py            replace the text between the two marks
python tools/cli_reference.py --check    fail if the file is not what would be written
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from borzoi.__main__ import COMMANDS, main
from borzoi.command_tree import CommandTree

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
BEGIN = "<!-- reference: made by tools/cli_reference.py -->\n"
END = "<!-- end of the reference -->\n"
#: Commands of these packages are described in full; the others have their own pages.
DESCRIBED = ("borzoi.cli.", "borzoi.bench.")

#: Options that nearly every command has; the text above the reference explains them.
SAID_ONCE = {"--help", "--output"}


def reference() -> str:
    context = click.Context(main, info_name="borzoi")
    parts = ["### Options of every command", "", *options_of(main, context), ""]
    for name, entry in COMMANDS.items():
        names = [f"borzoi {one}" for one in (name, *entry.aliases)]
        parts += [f"### `{'`, `'.join(names)}`", ""]
        if entry.place.startswith(DESCRIBED):
            command = main.get_command(context, name)
            assert command is not None
            parts += described(command, click.Context(command, context, name))
        else:
            parts += [entry.summary, ""]
    return "\n".join(parts).rstrip("\n") + "\n"


def described(command: click.Command, context: click.Context) -> Iterator[str]:
    # Words only: versions of Python differ in how they indent docstrings.
    yield " ".join((command.help or "").split())
    yield ""
    if not isinstance(command, click.Group):
        yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}"
        yield ""
    options = list(options_of(command, context))
    if options:
        yield from (*options, "")
    if isinstance(command, click.Group):
        yield from commands_of(command, context)


def commands_of(group: click.Group, context: click.Context) -> Iterator[str]:
    """A line for each command of a group, with its arguments and options."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name)
        names = [name, *(group.aliases_of(name) if isinstance(group, CommandTree) else ())]
        arguments = [
            one.make_metavar(inner)
            for one in command.get_params(inner)
            if isinstance(one, click.Argument)
        ]
        usage = " ".join([f"`{'` or `'.join(names)}`", *(f"`{one}`" for one in arguments)])
        yield f"- {usage}: {(command.help or '').strip().splitlines()[0]}"
        yield from (f"  {line}" for line in options_of(command, inner))
    yield ""


def options_of(command: click.Command, context: click.Context) -> Iterator[str]:
    for param in command.get_params(context):
        if isinstance(param, click.Option) and not (param.hidden or SAID_ONCE & {*param.opts}):
            record = param.get_help_record(context)
            if record is not None:
                yield f"- `{record[0]}` {' '.join(record[1].split())}".rstrip()


def written(document: str) -> str:
    """The document with its reference made new."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


if __name__ == "__main__":
    there = DOCUMENT.read_text("utf-8")
    if "--check" in sys.argv[1:]:
        old = f"{DOCUMENT.name} is old: run tools/{Path(__file__).name}"
        sys.exit(0 if written(there) == there else old)
    DOCUMENT.write_text(written(there), "utf-8")
