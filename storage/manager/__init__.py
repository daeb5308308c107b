"""All logs of a daemon: data directories, checkpoints, upkeep, moves between directories, the mark of a clean stop.

Start reading at `log_manager.py`.
"""
