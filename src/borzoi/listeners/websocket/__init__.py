"""WebSocket: the binary messages of one direction are a byte stream with the frames of TCP in it.

``handshake.py`` and ``frames.py`` are sans-IO. ``plain.py`` puts them between a raw socket and its
conversation, so that stored messages still leave by `sendfile`; ``secure.py`` does it over TLS.
"""
