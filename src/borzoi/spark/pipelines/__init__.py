"""Pipelines: one TOML or Python file becomes streaming queries, and jobs are pipelines in one line.

Used by `borzoi pipeline` and `borzoi job`; uses the source, the topic sink and the lake sinks
through Spark's own API. `model` reads and checks a file without Spark, `planning` says what would
be read, `compiling` builds data frames from it, `running` starts and watches the queries.
How messages are read and written does not belong here.
"""
