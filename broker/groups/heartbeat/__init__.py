"""Groups whose members are led by the coordinator with heartbeats: consumer (KIP-848), share (KIP-932), streams (KIP-1071).

Start reading at `runtime.py` (what is common: write, replay, delays, answers) and `registry.py` (which type is where). A type is

- its record's layouts in `protocol/messages`, and a group class on `group.HeartbeatGroup`;
- functions that replay each of its records into that class: the only code that changes a group, live and while loading;
- a machine: pure functions from (group, request, time) to an `machine.Outcome` of an answer, records and delays.

Imported with the first heartbeat or the first such record; a daemon with classic groups alone never pays for it.
"""
