"""Planes: which process owns an operation, and how it gets there.

Handlers submit operations on metadata and on partitions; the planes run them here or, with more
than one shard, on their owner. They use ``partitions``, ``metadata`` and ``storage``. The meaning
of a client's request and its byte layout do not belong here.
"""
