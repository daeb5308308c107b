"""Who is let in, and who they are: TLS, SASL, and the users that are stored.

Start with `listener_security.py`: what a listener asks of its clients. `tls.py` makes contexts out of PEM files and
watches these; `handshake.py` is the gate before the dispatcher, with one module for each mechanism. Imported when a listener
speaks anything but PLAINTEXT, or when users are administered.
"""
