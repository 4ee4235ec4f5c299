"""What a request says that is wrong whatever the server holds; asked before anything is looked up.

The published servers find these faults first, even before they ask who may, and clients' tests know
the order.
"""

from typing import TypeVar

from borzoi.metadata.partitions import check_partitions_count
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.topics import CreateTopic

Request = TypeVar("Request")
Counted = TypeVar("Counted", CreateTopic, CreatePartitions, DeletePartitions)


def as_it_is(request: Request) -> Request:
    return request


def partitions_counted(request: Counted) -> Counted:
    """A request that says how many partitions, and says it sensibly."""
    check_partitions_count(request)
    return request
