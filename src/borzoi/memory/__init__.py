"""Memory for received bytes: pooled buffers over one shared arena.

Listeners acquire and release buffers; a batch stays in its buffer from the socket to the disk. The
meaning of the bytes and the files they go to do not belong here.
"""
