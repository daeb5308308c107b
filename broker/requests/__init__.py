"""From a frame to its handler and back: the table of APIs, access checks, quotas, error answers.

Start reading at `dispatcher.py`, then `services.py` (what handlers may use) and `registry.py`. Handlers are in `broker/apis/`.
A request for which rights are missing is refused as a whole by `access.py`, its parts by the handler through `context.py`;
`../security/acl/` looks the rules up.
"""
