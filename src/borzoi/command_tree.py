"""Command groups that load a command when it is called, know aliases, and suggest near names.

`borzoi --help` must not import what it does not run, so a group holds a table of names, summaries
and places, and prints its help from the table.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from borzoi.model.spelling import nearest

#: The exit code of a command that Ctrl-C ended: 128 plus the signal number.
INTERRUPTED: Final = 130


class LazyCommand(NamedTuple):
    """A command that is not loaded yet."""

    #: ``module:attribute``.
    place: str
    summary: str
    aliases: tuple[str, ...] = ()


class CommandTree(click.Group):
    """A group over a table of entries, and commands added as usual."""

    def __init__(
        self, *args: Any, entries: Mapping[str, LazyCommand] | None = None, **kw: Any
    ) -> None:
        super().__init__(*args, **kw)
        self.entries = dict(entries or {})
        self._aliases = {alias: name for name, one in self.entries.items() for alias in one.aliases}

    def command_named(
        self, name: str, *aliases: str, **options: Any
    ) -> Callable[[Callable[..., Any]], click.Command]:
        """Decorator: a sub-command with its aliases."""

        def decorate(function: Callable[..., Any]) -> click.Command:
            decorator: Callable[[Callable[..., Any]], click.Command]
            decorator = click.command(name, **options)
            command = decorator(function)
            self.add_command(command)
            self.add_aliases(name, *aliases)
            return command

        return decorate

    def add_aliases(self, name: str, *aliases: str) -> None:
        self._aliases.update(dict.fromkeys(aliases, name))

    def aliases_of(self, name: str) -> list[str]:
        return [alias for alias, target in self._aliases.items() if target == name]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.entries, *(name for name in self.commands if name not in self.entries)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self._aliases.get(cmd_name, cmd_name)
        if name in self.commands:
            return self.commands[name]
        entry = self.entries.get(name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # As shells report it, and without click's word "Aborted!".
            raise click.exceptions.Exit(INTERRUPTED) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            known = [*self.list_commands(ctx), *self._aliases]
            near = nearest(name, known, likeness=0.5)
            hint = f" Did you mean {near!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            entry = self.entries.get(name)
            summary = entry.summary if entry else self.commands[name].get_short_help_str(80)
            aliases = self.aliases_of(name)
            shown = f"{name} ({', '.join(aliases)})" if aliases else name
            rows.append((shown, summary))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def command_tree(function: Callable[..., Any]) -> CommandTree:
    """Decorator: the function's name and text become a tree without entries."""
    tree = click.group(cls=CommandTree)(function)
    assert isinstance(tree, CommandTree)
    return tree
