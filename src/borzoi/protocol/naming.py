"""Requests that say nothing but what they are about.

::

    NoFields    no fields
    OfName      name
    OfStream    identifier stream_id
    OfTopic     identifier stream_id, identifier topic_id
    OfGroup     identifier stream_id, identifier topic_id, identifier group_id
    OfUser      identifier user_id
"""

from borzoi.model.identifiers import Identifier
from borzoi.protocol.contract import Request
from borzoi.protocol.layout import IDENTIFIER, NAME


class NoFields(Request): ...


class OfName(Request):
    LAYOUT = (NAME,)
    name: str


class OfStream(Request):
    LAYOUT = (IDENTIFIER,)
    stream_id: Identifier


class OfTopic(Request):
    LAYOUT = (IDENTIFIER, IDENTIFIER)
    stream_id: Identifier
    topic_id: Identifier


class OfGroup(Request):
    LAYOUT = (IDENTIFIER, IDENTIFIER, IDENTIFIER)
    stream_id: Identifier
    topic_id: Identifier
    group_id: Identifier


class OfUser(Request):
    LAYOUT = (IDENTIFIER,)
    user_id: Identifier
