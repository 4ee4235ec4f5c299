"""Requests and responses of all commands, one module per resource, each layout next to its class.

Used by `borzoi.protocol.catalog` and by code that builds requests or responses; uses
`borzoi.protocol.buffers` and `borzoi.protocol.values`. Checks of meaning (lengths of passwords,
numbers of partitions, permissions) do not belong here.

Every request class has `CODE`, `RESPONSE` (the class of the answer, None when it is empty),
`encode` and `decode`; every response class has `encode` and `decode`. Bytes after the last field
of a request are ignored, because some published clients send them; lists in responses are read to
the end of the payload.
"""
