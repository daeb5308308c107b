"""Access rules (KIP-11, KIP-290) and the decision that follows from them. `model.py` defines the terms.

Start reading at `authorizer.py`.
"""
