"""WebSocket as RFC 6455 has it: the request that opens one, its answer, and frames; sans-IO.

The listener and the client hand it bytes and get bytes back; which bytes travel inside the frames
is none of its business, and neither is where masks and keys are drawn from.
"""
