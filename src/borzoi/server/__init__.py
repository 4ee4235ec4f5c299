"""The composition root: the only package that reads configuration, environment and arguments.

It builds every other part from its frozen section of settings and starts them. It uses
``listeners``, ``handlers``, ``shard`` and ``storage``, and nothing uses it. The meaning of commands
and byte layouts do not belong here.
"""
