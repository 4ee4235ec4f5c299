"""Lake tables without jars: Parquet files by pyarrow, commits by deltalake, pyiceberg or ourselves.

Handed work by Spark through `sink.py`, on the row plane (record batches) and on the bulk plane
(ranges of messages that the task reads itself); hands work to pyarrow and to the libraries of the
table formats. Executors write files under names of their own; one atomic step on the driver makes
them part of the table and says which query and epoch they came from, so a repeated epoch commits
nothing. What the rows mean does not belong here.
"""
