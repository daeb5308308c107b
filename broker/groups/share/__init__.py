"""Membership of share groups (KIP-932): the members, and which partitions each reads. Records' states are in `broker/share/`.

Start reading at `machine.py`.
"""
