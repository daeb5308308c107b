"""Base of every other room, with nothing of Kafka's in it: event loop, threads, garbage collection, log lines.

Chunks of long work, timers, error codes, metric values, expressions of clients. Imports no other room of the broker.
Start reading at `cooperative.py`.
"""
