"""SASL: PLAIN, SCRAM, OAUTHBEARER, and what a listener requires of its clients. Start reading at `handshake.py`."""
