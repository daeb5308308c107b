"""Client quotas (KIP-13, KIP-546): which one holds for a client, how much it has used, how long it has to wait.

`quota.py` has the values, `rate.py` measures, `manager.py` brings both together. Start reading there.
"""
