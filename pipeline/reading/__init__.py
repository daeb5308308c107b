"""Splits read to columns: segments of files or fetches over TCP, batches decoded, views reduced. Runs in Spark's tasks.

Start reading at `split_reader.py`; `batch_decoder.py` is what both ways have in common.
"""
