"""The console: pages about topics and partitions at the HTTP listener, made here and complete as they are sent.

`pages.py` says what is on each page, `anatomy.py` draws a partition's log, `html.py` makes text of it, `style.py` is its one
style sheet. No script, nothing from elsewhere: a page works without the internet, and its Content-Security-Policy says so.
Imported when the first page is asked for. HTTP's threads, any of them.
"""
