"""Gives the load generator TLS: takes its connections in the clear and goes on by TLS to a broker.

    python benchmarks/tls_wrapper.py PORT CERTIFICATE

listens on a free port, which it prints, and then what each connection agreed on. Only the broker's CPU is measured, so
that what this costs is nobody's; it bounds the speed, equally for both brokers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys

import uvloop
import wire

CHUNK = 256 * 1024


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, until its end."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(ConnectionError, ssl.SSLError, RuntimeError):
        writer.close()


async def serve(port: int, certificate: str) -> None:
    """Until it is killed."""
    context = ssl.create_default_context(cafile=certificate)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_connection(wire.HOST, port, limit=CHUNK, ssl=context, server_hostname="localhost")
        print(*theirs[1].get_extra_info("cipher"), flush=True)
        await asyncio.gather(relay(reader, theirs[1]), relay(theirs[0], writer))

    server = await asyncio.start_server(connected, wire.HOST, 0, limit=CHUNK)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
