"""Groups of clients that share a topic's partitions, and their committed offsets: classic, KIP-848's, share and streams groups.

`coordinator.py` is all of them as one object; `store/` is what they have in common in `__consumer_offsets`; `classic/` is the
old protocol, `heartbeat/` what the protocols with heartbeats share. Start reading at `coordinator.py`.
"""
