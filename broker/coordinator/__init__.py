"""Runtime of the coordinators of groups, transactions and share state: their life, shards, and how they write records.

Start reading at `runtime.py`; `internal_topic.py` is where it writes and reads, `internal_records.py` shows records to people.
"""
