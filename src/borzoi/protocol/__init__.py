"""The contract between client and server: frames, commands, codes, status codes, REST documents.

Handed work by the listeners, the handlers and the clients, which share it unchanged; hands work to
`borzoi.model` for the values it reads and writes. Everything here turns bytes into values and
values into bytes and holds no opinion about them: who may ask, what happens and what is stored
belong elsewhere, and so do sockets, clocks and files.
"""
