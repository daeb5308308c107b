"""Contents of `/metrics` and `/health`: a module for each subject, and `collector.py`, which asks them all at a scrape.

Read-only: every number is published by the room that knows it. Start reading at `collector.py`, then `health.py`.
"""
