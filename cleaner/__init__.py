"""The log cleaner: compaction by key. Start reading at `cleaner_manager.py` (what to clean), then `cleaning.py` (one pass)."""
