"""One module per Kafka API: its handler, the versions that it answers, the rights that it requires.

`broker/requests/registry.py` gathers them. A new API is a module here and its
messages in `protocol/messages/`. Start reading at `metadata.py`, then `fetch.py` and `produce.py`.
"""
