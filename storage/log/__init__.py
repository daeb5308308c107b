"""One partition's log: appending, reading, loading, recovery, leader epochs.

Start reading at `unified_log.py`; `loader.py` and `recovery.py` are what happens at a start.
"""
