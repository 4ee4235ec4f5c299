"""``borzoi``: everything an operator types.

One module per noun turns arguments into calls of ``borzoi.client`` and answers into documents.
``output`` prints them; ``faults`` turns errors into a message, a hint and an exit code. Work on
the files of a stopped server belongs to ``borzoi.tools``, the load generator to ``borzoi.bench``.
"""
