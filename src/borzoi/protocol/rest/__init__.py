"""The protocol over HTTP: routes, JSON documents, error bodies.

The HTTP listener and client use it to convert methods, targets and bodies to the values of
``protocol/commands`` and back; both use the same table of routes. Bytes and
sockets, tokens and CORS belong to the listener; what a request does belongs to the handlers.
"""
