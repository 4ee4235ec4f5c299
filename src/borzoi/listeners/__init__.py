"""Sockets: bytes in, bytes out, no meaning.

A listener accepts connections, finds the frames in what they send, and sends back the responses.
`binary.py` turns frames into requests for ``handlers`` and answers into frames. What a command
does is decided there, not here.
"""
