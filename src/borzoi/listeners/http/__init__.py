"""HTTP: calls in, documents out, over the same `perform` as every other transport.

``listener.py`` owns the sockets, ``app.py`` turns calls into requests and answers into responses,
``authentication.py`` turns tokens into sessions. The shapes of calls and documents are in
``protocol/rest``.
"""
