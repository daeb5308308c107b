"""Partitions as requests see them: logs with the syncs, waits and conversions that stand between a request and its answer.

Start reading at `partition.py`, whose `append` chooses the way of a client's batch; `purgatory.py` is where fetches wait.

    slow disks   `storage/io/write_pace.py` notices, `append_offload.py` has the appends written by a thread
    conversions  `conversion_thread.py` is their thread. What runs in it: up, from old producers, `storage/log/validator.py`;
                 down, for old consumers, `protocol/records/conversion.py`, called by `../produce_fetch/legacy_fetch.py`
"""
