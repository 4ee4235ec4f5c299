"""Values every other package speaks about: names, numbers, limits, units, faults.

Handed work by everyone, hands work to no one. Pure: nothing here may touch a clock, a socket, a
file or a random number, and nothing here knows the wire, the disk or the server.
"""
