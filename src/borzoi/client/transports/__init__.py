"""How bytes reach a server: one module per transport, each with both colours of it.

Handed work by the connections in `_async` and `_sync`; hands work to sockets and event loops, and
is the only place of the client that does. A transport carries frames: the parts of a request go
out in one write, and its answer comes back in the order of the requests. What a frame means, who
logs in and when to try again does not belong here.
"""
