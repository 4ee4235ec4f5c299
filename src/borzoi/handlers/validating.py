"""Checks of a request alone, made before anything it names is looked up.

The published servers report these faults first, even before a missing permission, and clients'
tests rely on the order.
"""

from typing import TypeVar

from borzoi.metadata.partitions import check_partitions_count
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.topics import CreateTopic

Request = TypeVar("Request")
Counted = TypeVar("Counted", CreateTopic, CreatePartitions, DeletePartitions)


def unchecked(request: Request) -> Request:
    return request


def partitions_counted(request: Counted) -> Counted:
    """The request, if its number of partitions is allowed."""
    check_partitions_count(request)
    return request
