"""borzoi: a persistent message-streaming platform that speaks the Apache Iggy 0.8 protocol.

The packages below are listed in the order a byte travels, from the socket to the disk; see
``docs/architecture.md`` for the tour.
"""

__version__ = "0.1.0"
