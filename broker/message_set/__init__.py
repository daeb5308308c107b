"""The message-set protocol on its own listeners (docs/MESSAGE_SET.md): five small requests and the log's own bytes.

`listener.py` takes a frame to its request's module and back. Start reading there.
"""
