"""What the coordinators of groups, transactions and share state have in common: life, shards, and how records are written.

Start reading at `runtime.py`; `internal_topic.py` is where it writes and reads, `internal_records.py` shows records to people.
"""
