"""Backup: the log in a place that outlives the machine.

`store/` keeps objects (a directory, S3, Google Cloud Storage, Azure, memory) and knows nothing of logs. It imports storage and
protocol, never the broker, which hands in what it publishes. `cut/` makes cuts of a running daemon,
`formats/` is what is in their objects, `restore/` makes a directory of them, `upkeep/` removes old ones. Start reading in
`cut/writer.py` and `store/interface.py`. Decisions: docs/adr/0080-backup.md and docs/adr/0081-object-stores.md.
"""
