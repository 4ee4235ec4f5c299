"""The client on an event loop, and the source of the blocking one.

Used by programs, the command line, the console and Spark; uses the transports, the protocol and
the pure policies next to this package. ``tools/unasync.py`` generates ``borzoi.client._sync`` from
it: colour-dependent parts come from `_colours`, and sockets belong to
`borzoi.client.transports`.
"""
