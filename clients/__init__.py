"""Clients of the message-set protocol: sockets around `tidelog.protocol.message_set`, and nothing else of the daemon."""
