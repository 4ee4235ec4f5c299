"""Sealed plain segments read inside the JVM: the rows of a scan do not pass through Python.

Planning, options, push-down and the checks of a directory stay in Python. `splits` writes the
ranges of segments into the partitions that Spark pickles. The Java classes beside this file find
them there and read them as columns. `install` compiles the classes by the compiler that Spark
ships, and puts their scan into a session. What they do not know is read by the Python reader, with
which their tests compare them. docs/decisions/0018-segments-inside-the-jvm.md says why.
"""
