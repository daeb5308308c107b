"""The log cleaner: compaction by key.

Start reading at `eligibility.py`, which decides whether a log is cleaned now, and up to where; `cleaner_manager.py` asks it
and takes the most urgent log, `cleaning.py` makes the pass.
"""
