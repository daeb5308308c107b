"""Files: segments, indexes, logs, recovery. No network, no event loop.

Start reading at `log/unified_log.py`, then `segment/log_segment.py` and `log/loader.py`. What retention deletes is decided in
`retention/` and carried out in `log/retention_executor.py`.
"""
