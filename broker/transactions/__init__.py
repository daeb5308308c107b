"""Transactions (KIP-98, KIP-890): what state each transactional id is in, kept in `__transaction_state`, and its markers.

`states.py` decides (values in, outcomes out), `coordinator.py` carries out, and aborts what is overdue; `markers.py` writes what
ends a transaction to its partitions. Start reading at `states.py`.
"""
