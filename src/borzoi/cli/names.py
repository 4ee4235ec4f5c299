"""Arguments that name things: ids or names, and ``stream/topic``."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from borzoi.cli.completion import live_streams, live_topics
from borzoi.model.identifiers import Identifier


class IdentifierType(click.ParamType[Identifier]):
    """A number, or a name."""

    name = "id or name"

    def convert(self, value: Any, param: Any, ctx: Any) -> Identifier:
        text = str(value)
        if not text:
            self.fail("an id or a name is needed, not an empty text", param, ctx)
        return int(text) if text.isdecimal() else text

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return live_streams(incomplete)


class TopicType(click.ParamType[tuple[Identifier, Identifier]]):
    """``stream/topic``; each part is a number or a name."""

    name = "stream/topic"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Identifier, Identifier]:
        if isinstance(value, tuple):
            return value
        stream, slash, topic = str(value).partition("/")
        if not (stream and slash and topic) or "/" in topic:
            self.fail(f"{value!r} is not a topic: write STREAM/TOPIC", param, ctx)
        return IDENTIFIER.convert(stream, param, ctx), IDENTIFIER.convert(topic, param, ctx)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return live_topics(incomplete)


Command = TypeVar("Command", bound=Callable[..., Any])
Topic: TypeAlias = tuple[Identifier, Identifier]

IDENTIFIER: Final = IdentifierType()
TOPIC: Final = TopicType()


def topic_arguments(metavar: str) -> Callable[[Command], Command]:
    """The decorator for `arguments`, which begin with a topic: what `topic_of` reads."""
    return click.argument("arguments", nargs=-1, required=True, metavar=metavar)


def topic_of(parts: tuple[str, ...], *, rest: int = 0) -> tuple[Topic, list[str]]:
    """The topic at the start of arguments, as ``STREAM TOPIC`` or ``STREAM/TOPIC``, and the rest.

    `rest` is how many arguments have to follow; it distinguishes the two forms when a name
    contains a slash.
    """
    given = list(parts)
    if given and "/" in given[0] and (len(given) == 1 or len(given) - 1 >= rest):
        return TOPIC.convert(given[0], None, None), given[1:]
    if len(given) >= 2:
        stream, topic, *others = given
        return (
            IDENTIFIER.convert(stream, None, None),
            IDENTIFIER.convert(topic, None, None),
        ), others
    raise click.UsageError("a topic is needed: STREAM TOPIC, or STREAM/TOPIC")


def shown_topic(topic: Topic) -> str:
    """The topic as people write it."""
    return f"{topic[0]}/{topic[1]}"
