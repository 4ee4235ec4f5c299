"""Who may do what, and how secrets are made, kept and checked.

Handed work by the handlers (is this allowed, is this the password) and by the server (TLS
contexts); hands work to nobody. What a user may do is data of the metadata; this package only
says what the data means. Sessions, logins and their order of checks belong to the handlers.
"""
