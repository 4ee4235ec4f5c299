"""How secrets are made, kept and checked.

Handed work by the handlers (is this the password, is this token valid) and by the server (TLS
contexts); calls no other package but the model. Permissions belong to the metadata; sessions,
logins and their order of checks belong to the handlers.
"""
