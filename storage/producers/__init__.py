"""Idempotent and transactional producers of a log: sequences, open transactions, snapshots on disk.

Start reading at `state.py`; `snapshot.py` has the file.
"""
