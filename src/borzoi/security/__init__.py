"""How secrets are created, stored and verified.

Used by the handlers (passwords, tokens) and by the server (TLS contexts); uses only the model.
Permissions belong to the metadata; sessions, logins and the order of their checks belong to the
handlers.
"""
