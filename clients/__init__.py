"""Clients of the message-set protocol: sockets around `tidelog.protocol.message_set`, and nothing else of the daemon.

One for threads, one for asyncio, with the same calls. Start reading at `message_set_client.py`. `kafka/` is the Kafka client
that the command line and the pipeline stand on; it is no public interface.
"""
