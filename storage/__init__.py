"""Files: segments, indexes, logs, recovery. No network. Start at `unified_log.py`, then `log_segment.py`, `loader.py`."""
