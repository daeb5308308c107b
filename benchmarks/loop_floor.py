"""A server on the daemon's own event loop (uvloop) whose protocol is C: what a request costs when everything above the loop costs
nothing. `python loop_floor.py HANDLER.so append FILE` or `… read PARTITION_DIRECTORY`; prints `ready PORT BEGIN END`."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from importlib.machinery import ExtensionFileLoader
from types import ModuleType

import uvloop


def load(path: str) -> ModuleType:
    loader = ExtensionFileLoader("loop_handler", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("loop_handler", loader) or sys.exit(2))
    loader.exec_module(module)
    return module


async def serve(handlers: ModuleType, mode: str, place: str) -> None:
    if mode == "append":
        handlers.open_append(place)
        begin, end, protocol = 0, 0, handlers.Append
    else:
        begin, end = handlers.read_table(place)
        protocol = handlers.Read
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    print("ready", server.sockets[0].getsockname()[1], begin, end, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(load(sys.argv[1]), *sys.argv[2:4]))
