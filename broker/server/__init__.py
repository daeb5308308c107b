"""The daemon itself: what it is made of, what starts and stops in which order. Nobody but commands and test brokers imports it.

Start reading at `node.py`; `composition.py` makes the parts.
"""
