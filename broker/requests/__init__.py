"""From a frame to its handler and back: the table of APIs, access checks, quotas, error answers.

Start reading at `dispatcher.py`, then `services.py` (what handlers may use) and `registry.py`. Handlers are in `broker/apis/`.
"""
