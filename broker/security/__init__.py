"""Identity of clients and users: principals, certificates, stored passwords, listeners without authentication.

`sasl/` is how clients prove who they are, `acl/` what they may do. Start reading at `principal.py`, then `sasl/handshake.py`.
Imported when a listener speaks anything but PLAINTEXT, or when users are administered.
"""
