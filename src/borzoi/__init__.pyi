# What type checkers see of the names that __init__.py loads late; a test keeps the two together.
from borzoi.client import AsyncClient as AsyncClient
from borzoi.client import Client as Client
from borzoi.client import Message as Message
from borzoi.client import NewMessage as NewMessage
from borzoi.client import read as read

__version__: str
