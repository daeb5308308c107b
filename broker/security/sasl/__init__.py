"""SASL: PLAIN, SCRAM, OAUTHBEARER; what a listener asks of its clients. Start reading at `handshake.py`."""
