"""Backup: the log in a place that outlives the machine.

`store/` keeps objects (a directory, S3, Google Cloud Storage, Azure, memory) and knows nothing of logs. It imports storage and
protocol, never the broker, which hands in what it publishes. Start reading in `store/interface.py`.
"""
