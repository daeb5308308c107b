"""Client quotas (KIP-13, KIP-546): which one applies to a client, how much of it is used, how long the client has to
wait.

`quota.py` has the values, `rate.py` measures, `manager.py` brings both together. Start reading there.
"""
