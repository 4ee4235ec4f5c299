"""One process per core: whose work is it, and how does it get there.

Handlers hand in operations on metadata and on partitions; the planes run them here or, with more
than one shard, on their owner. They hand work to ``partitions``, ``metadata`` and ``storage``. What
a client's request means, and what its bytes look like, does not belong here.
"""
