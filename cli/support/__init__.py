"""Code shared by commands: clients of Kafka's protocol and of HTTP, tables, progress, offsets and rules as people type
them.

A command's own words are in its module, one folder up. Start reading at `kafka_client.py`.
"""
