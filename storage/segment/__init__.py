"""One segment of a log: its files, reading and appending, splitting and replacing, and damage in it.

Start reading at `log_segment.py`, then `segment_list.py` (a log's segments in order); `names.py` has the file names.
"""
