"""Cuts: from what the loop has seen of all logs to a manifest in the store. Start reading in `writer.py`.

`vector.py` what the loop copies · `tracker.py` what of it is in the store, and what a cut adds · `reading.py` bytes of
segments, by a thread for each data directory · `pack.py` and `whole.py` send them · `writer.py` one cut after the other, and
the fence.
"""
