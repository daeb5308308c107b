"""What the coordinators of groups, transactions and share state have in common: life, shards, and how records are written.

Start reading at `runtime.py`; the topic itself is in `partitions/internal_topic.py`.
"""
