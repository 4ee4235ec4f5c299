"""Objects by key: put, create, read, list, delete, and the fenced log built on them.

Used by `archive` and, in object mode, by `storage`; sends requests to a directory, to memory or to
a store such as S3. Segments, partitions and messages do not belong here: a store holds keys
and bytes. Nothing here reads configuration or the environment; obstore reads credentials itself.
"""
