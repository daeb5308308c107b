"""Walks of passes in processes of their own, at the lowest priority (ADR 74, ADR 89).

Start reading at `walker.py`, the daemon's side; `child.py` is the process, `messages.py` what they say to each other. Nothing
here is imported before the first pass.
"""
