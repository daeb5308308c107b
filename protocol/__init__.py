"""Bytes only: frames, headers, message codecs, record formats. No I/O. Start at `framing.py`, then `schema.py`."""
