"""From the store back to a directory that a daemon serves. Start reading in `restore.py`.

`catalog.py` finds and reads cuts · `fetching.py` gets bytes and checks their sums · `restore.py` writes files, and loads
them once · `marker.py` tells a directory that is not complete.
"""
