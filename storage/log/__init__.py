"""One partition's log: appending, reading, loading, recovery, retention, leader epochs.

Start reading at `unified_log.py`, which holds a `local_log.py`: offsets there, files here. `loader.py` and `recovery.py` are what
happens at a start. `retention_executor.py` carries out what `../retention/plan.py` decides. `validator.py` converts what clients
append to the topic's format.
"""
