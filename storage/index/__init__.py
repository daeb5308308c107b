"""The sparse indexes beside a segment (`.index`, `.timeindex`, `.txnindex`), and when an entry of them is trusted.

Start reading at `offset_index.py`; `trust.py` compares entries with the batches that they name.
"""
