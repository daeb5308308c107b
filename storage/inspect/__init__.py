"""Inspects a data directory from outside: `log dump`, `log verify`, `log anatomy`. Changes no file.

Start reading at `verify.py`; `dump.py` prints what is in the files, `anatomy.py` gathers what a picture shows.
"""
