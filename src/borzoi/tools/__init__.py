"""Work on the files of a server that is down: verify, dump, repair, import.

The command line hands it directories; it reads and writes them through ``storage`` and
``metadata``. Nothing a running server needs belongs here.
"""
