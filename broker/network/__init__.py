"""Sockets: listeners, connections in the clear and by TLS, and the memory that clients' requests and answers may hold.

`connection.py` is one client from its first byte to its last; `sasl_gate.py` stands before the dispatcher until it is known who
that is. `outbound.py` sends answers, records by `sendfile`. `request_memory.py` bounds what clients send slowly,
`response_memory.py` what they leave unread, in bytes and in time. Start reading at `socket_server.py`.
"""
