"""Finds rot early: reads the closed segments of a data directory slowly, again and again, and says what is damaged.

Start reading at `status.py`, what is told about it; `segment_look.py` reads one segment, `pass_over.py` all of a directory,
`service.py` runs that in the daemon, `offline.py` for `tidelog log scrub`. Design: docs/adr/0065-scrub.md.
"""
