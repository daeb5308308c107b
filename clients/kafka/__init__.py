"""A small Kafka client for what is ours: requests and answers as declared messages, to any broker from 0.10 on.

Start reading at `protocol.py`, which is one connection without its socket: bytes in, bytes out. `conversations.py`
is in terms of it, `connection.py` is the blocking connection with its socket and TLS.
A connection connects once and repeats nothing; clusters, patience and sentences for people are its users' (ADR 60).
"""
