"""Partitions as requests see them: logs with the syncs, waits and conversions that stand between a request and its answer.

Start reading at `partition.py`, whose `append` chooses the way of a client's batch; `purgatory.py` is where fetches wait.
"""
