"""A real server for tests: in a process or in the event loop of the test, on a free port.

Used by test suites, through the fixtures of `borzoi.pytest_plugin` or directly; uses
`borzoi.server` and `borzoi.client`. It is installed with borzoi, so nothing that only our own tests
need belongs here.
"""

from borzoi.testing.faults import Proxy
from borzoi.testing.server import Server, ServerDied

__all__ = ["Proxy", "Server", "ServerDied"]
