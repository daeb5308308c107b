"""Records of `__cluster_metadata`, in which Apache Kafka's controllers (KRaft) keep topics, ids and settings.

`records` has their fields, `frame` how a record's value says which of them it is. Reading the log's files is
`storage/inspect/metadata_log.py`; what the records come to is `broker/kraft/image.py`. Start reading at `records.py`.
"""
