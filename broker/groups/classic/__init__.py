"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

`rebalance.py` decides (values in, effects out), `membership.py` carries the effects out. Start reading at `events.py`.
"""
