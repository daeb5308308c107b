"""State of the whole broker that outlives it: topics, ids, settings, producer ids; stored in `metadata.db` (SQLite).

`topics.py` makes, changes and deletes them, `store.py` writes them down; `../kraft/` is the way from and to Apache Kafka.
Start reading at `topics.py`.
"""
