"""The sparse indexes beside a segment (`.index`, `.timeindex`, `.txnindex`).

Start reading at `offset_index.py`; `segment/file_records.py` tells when an entry is trusted.
"""
