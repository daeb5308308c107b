"""Who somebody is, and what is kept of users: principals, certificates, stored passwords, listeners that let everybody in.

`sasl/` is how clients prove who they are, `acl/` what they may do. Start reading at `principal.py`, then `sasl/handshake.py`.
Imported when a listener speaks anything but PLAINTEXT, or when users are administered.
"""
