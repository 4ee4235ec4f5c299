"""What the server reports about itself: its process, its machine, and snapshots for support.

Used by handlers; reads /proc and the server's own files. Metrics of the hot path and anything
about the contents of streams do not belong here.
"""
