"""All logs of a daemon: data directories, upkeep, moves between directories.

Start reading at `log_manager.py`.
"""
