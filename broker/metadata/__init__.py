"""What is true of the whole broker and outlives it: topics, ids, settings, producer ids; kept in `metadata.db` (SQLite).

`topics.py` makes, changes and deletes them, `store.py` writes them down; `../kraft/` is the way from and to Apache Kafka.
Start reading at `topics.py`.
"""
