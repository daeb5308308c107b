"""Partitions as requests see them: logs with the syncs, waits and conversions that stand between a request and its answer.

Start reading at `partition.py`; `purgatory.py` is where fetches wait.
"""
