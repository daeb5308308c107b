"""Looking at a data directory from outside: `log dump`, `log verify`, `log anatomy`. Nothing here changes a file.

Start reading at `verify.py`; `dump.py` prints what is in the files, `anatomy.py` gathers what a picture shows.
"""
