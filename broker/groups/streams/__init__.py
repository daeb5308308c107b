"""Streams groups (KIP-1071): Kafka Streams' tasks, assigned by the broker.

Start reading at `machine.py`; `topology.py` is what an application says of itself.
"""
