from __future__ import annotations

import socket

from support.wire_tap import WireTap


def test_requests_are_kept_and_passed_on_in_both_directions() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker, WireTap() as tap:
        tap.target = broker.getsockname()
        with socket.create_connection(("127.0.0.1", tap.port)) as client:
            server, _ = broker.accept()
            with server, server.makefile("rb") as received, client.makefile("rb") as answers:
                for part in (b"\0\0\0\3ab", b"c\0\0\0\0\0\0", b"\0\1d"):
                    client.sendall(part)
                assert received.read(16) == b"\0\0\0\3abc\0\0\0\0\0\0\0\1d"
                server.sendall(b"answer")
                assert answers.read(6) == b"answer"
                assert tap.take() == [b"abc", b"", b"d"]
                assert tap.take() == []
