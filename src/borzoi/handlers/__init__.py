"""Commands: permissions and effects, in the vocabulary of the protocol.

Listeners call `Dispatcher.perform` with a session and a request, and encode the answer. Handlers
call the planes of ``shard``. They never touch a partition, the metadata, a frame or a socket.
"""
