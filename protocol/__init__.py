"""Bytes only: frames, headers, message codecs, record formats. No I/O. Start reading at `framing.py`, then `schema.py`."""
