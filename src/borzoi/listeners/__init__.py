"""Sockets: bytes in, bytes out, no meaning.

A listener accepts connections, finds the frames in what they send, hands them to the dispatcher of
``handlers`` and sends back what that returns. What a command means does not belong here.
"""
