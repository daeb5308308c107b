"""Membership of share groups (KIP-932): who is in one and which partitions it reads. Records' states are in `broker/share/`.

Start reading at `machine.py`.
"""
