"""Access rules (KIP-11, KIP-290) and the decision that follows from them. `model.py` defines the terms.

Start reading at `authorizer.py`, which is asked, keeps decisions, and stores changes; `rules.py` finds the rules and decides.
"""
