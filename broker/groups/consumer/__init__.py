"""Consumer groups of KIP-848: members that report by heartbeats, and a reconciliation towards the target assignment.

Start reading at `machine.py`, then `heartbeat.py`; members of the classic protocol in such a group are in `classic_members.py`.
"""
