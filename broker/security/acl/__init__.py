"""Access rules (KIP-11, KIP-290) and the decision that they come to. `model.py` has the words.

Start reading at `authorizer.py`.
"""
