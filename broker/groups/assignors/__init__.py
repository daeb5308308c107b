"""Server-side assignors (KIP-848): which member of a group gets which partitions. Pure functions of values.

`spec.py` says what goes in and out. Start reading there.
"""
