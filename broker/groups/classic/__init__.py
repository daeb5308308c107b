"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

`rebalance.py` decides what each request and each time-out does (values in, effects out), `membership.py` carries the effects
out and keeps the time, with `../store/timers.py`. Start reading at `rebalance.py`; `events.py` has its requests,
results and effects.
"""
