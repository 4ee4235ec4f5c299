"""The composition root: the only package that reads configuration, environment and arguments.

It builds every other part from its frozen section of settings and starts them; it hands work to
``listeners``, ``handlers``, ``shard`` and ``storage``, and nothing hands work to it. What a command
means, and what bytes look like, does not belong here.
"""
