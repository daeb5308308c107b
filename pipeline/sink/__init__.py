"""The sink: rows from Spark into topics, at least once, or exactly once by transactions and a commit token.

    options.py          what a user says
    arrow_rows.py       Arrow record batches into the compiled builder
    producer.py         batches onto the wire, many in flight; transactions
    commit_protocol.py  what is to be done, decided without any I/O
    commit_log.py       tokens and marks: their bytes, and the commit topic as it stands
    committer.py        the driver's side: carries out what the protocol decides
    writers.py          Spark's side

Only `arrow_rows.py` imports pyarrow, only `writers.py` pyspark. Start reading with docs/adr/0034-pipeline-sink.md.
"""
