"""Lake tables without jars: Parquet files by pyarrow, commits by deltalake, pyiceberg or ourselves.

Used by Spark through `sink.py`, on the row plane (record batches) and on the bulk plane (ranges of
messages that the task reads itself); uses pyarrow and the libraries of the table formats.
Executors write files under unique names; one atomic commit on the driver makes them part of the
table and records their query and epoch, so a repeated epoch commits nothing. The meaning of rows
does not belong here.
"""
