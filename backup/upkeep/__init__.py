"""What becomes of old cuts: `retention.py` decides which stay, `sweep.py` deletes the others and what only they name.

Start reading in `sweep.py`."""
