"""State that all types of groups share: their kinds, committed offsets, records, and the partitions that hold them.

Start reading at `group.py`; `records.py` has the bytes of `__consumer_offsets`, `timers.py` the sessions of members.
"""
