"""How bytes reach a server: one module per transport, each with both colours of it.

Used by the connections in `_async` and `_sync`; the only part of the client that touches sockets
and event loops. A transport carries frames: the parts of a request go out in one write, and
answers arrive in the order of the requests. The meaning of frames, logins and retries do not belong
here.
"""
