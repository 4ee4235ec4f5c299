"""The client on an event loop, and the source of the blocking one.

Handed work by programs, the command line, the console and Spark; hands work to the transports, the
protocol and the pure policies beside this package. ``borzoi.client._sync`` is made from this by
``tools/unasync.py``: colour-dependent parts come from `_colours`, and sockets belong to
`borzoi.client.transports`.
"""
