"""The values that all other packages share: names, numbers, limits, units, faults.

Used by every package, uses none. Pure: nothing here may touch a clock, a socket, a file or a random
number, or depend on the wire, the disk or the server.
"""
