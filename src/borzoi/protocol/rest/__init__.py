"""The protocol as HTTP speaks it: routes, JSON documents, error bodies.

The HTTP listener and an HTTP client hand it methods, targets and bodies and get the values of
``protocol/commands`` back, and the other way round; both read the same table of routes. Bytes and
sockets, tokens and CORS belong to the listener; what a request does belongs to the handlers.
"""
