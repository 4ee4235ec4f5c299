"""Where received bytes live: pooled buffers over one shared arena.

Listeners take buffers here and give them back; a batch stays in its buffer from the socket to the
disk. What the bytes mean, and which file they go to, does not belong here.
"""
