"""The contract between client and server: frames, commands, codes, status codes, REST documents.

Used by the listeners, the handlers and the clients, which share it unchanged; uses `borzoi.model`
for the values it reads and writes. Everything here converts between bytes and values. Permissions,
effects and storage belong elsewhere, and so do sockets, clocks and files.
"""
