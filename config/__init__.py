"""Settings: one table (`definitions.py`), typed views over it, and what is generated from it. Start at `definitions.py`."""
