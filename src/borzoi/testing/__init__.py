"""A real server for tests: in a process or in the event loop of the test, on a free port.

Handed work by test suites, through the fixtures of `borzoi.pytest_plugin` or by hand; hands work to
`borzoi.server` and `borzoi.client`. It is part of what is installed, so nothing that only our own
tests need belongs here.
"""

from borzoi.testing.faults import Proxy
from borzoi.testing.server import Server, ServerDied

__all__ = ["Proxy", "Server", "ServerDied"]
