"""Tools for the files of a stopped server: verify, dump, repair, import.

Used by the command line; reads and writes data directories through ``storage`` and ``metadata``.
Nothing that a running server needs belongs here.
"""
