"""WebSocket: the binary messages of one direction are a byte stream with the frames of TCP in it.

``plain.py`` puts the frames of `borzoi.protocol.websocket` between a raw socket and its
conversation, so that stored messages still leave by `sendfile`; ``secure.py`` does it over TLS.
"""
