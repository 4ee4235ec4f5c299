"""WebSocket (RFC 6455): the opening request, its answer, and frames; sans-IO.

Used by the listener and the client, bytes in and bytes out. It does not interpret the payload of
frames; masks and keys are passed as arguments.
"""
