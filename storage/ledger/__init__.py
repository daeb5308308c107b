"""The ledger of a log, kept beside it: counts of removed records by cause, that is why an offset is not there any more.

`ledger.py` has the file, `keeper.py` writes it down in time. Start reading at `ledger.py`.
"""
