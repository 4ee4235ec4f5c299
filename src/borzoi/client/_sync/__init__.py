"""The client with blocking calls: plain sockets, no event loop.

Handed work by scripts, notebooks and the executors of Spark; hands work to the transports, the
protocol and the pure policies beside this package. Its modules are made from those of
`borzoi.client._async` by ``tools/unasync.py`` and never edited: nothing else belongs here.
"""
