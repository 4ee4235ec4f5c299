"""``borzoi bench``: a load generator for any server of the 0.8 protocol, and its reports.

The command line hands it a plan; it starts load processes, which speak the binary protocol through
the transports of ``borzoi.client``, and turns their samples into summaries, JSON and one HTML page.
Benches of borzoi's own parts, which need the source tree, do not belong here.
"""
