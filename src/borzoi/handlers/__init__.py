"""Commands: who may, and what happens, in the vocabulary of the protocol.

Listeners hand in frames; handlers hand work to the planes of ``shard`` and give back answers. They
never touch a partition, the metadata or a socket themselves.
"""
