"""Share groups (KIP-932): consumers that share the records of a partition, each of which has some for itself for a while.

    apis/share_fetch, share_acknowledge ──► SharePartitions ─┬─► SharePartition (decides; pure)
                                                             └─► ShareCoordinator ─► `__share_group_state`
    apis/share_group_heartbeat, … ──► the share group's members ──► ShareCoordinator (a topic's first use, its end)

Start reading at `partition.py` (what becomes of a record), then `manager.py` (who asks, and what is kept of it).
"""
