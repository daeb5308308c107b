"""Settings: one table, typed views over it, and what is generated from it. Start reading at `definitions.py`."""
