"""What a log's history of compactions and removals is, kept beside it: why an offset is not there any more.

`ledger.py` has the file, `keeper.py` writes it down in time. Start reading at `ledger.py`.
"""
