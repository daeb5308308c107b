"""From a frame to its handler and back: the table of APIs, rights, quotas, errors in the form that a client expects.

Start reading at `dispatcher.py`, then `registry.py`. Handlers are in `broker/apis/`.
"""
