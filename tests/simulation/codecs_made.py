"""Codecs that a run has made: its parent makes them too, so that they are there in the runs that follow.

A codec of a message in one version takes about a millisecond to make, and is made when it is wanted first. Without this each run,
a process of its own, makes some dozens of its own anew.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

Codec = tuple[str, str, int, bool]
"""Module and name of a message, version, and whether it is what encodes."""


def made() -> set[Codec]:
    """What there is in this process."""
    from tidelog.protocol import schema

    return {
        (cls.__module__, cls.__qualname__, version, codecs is schema._encoders)
        for codecs in (schema._decoders, schema._encoders)
        for cls, version in codecs
    }


def make(codecs: Iterable[Codec]) -> None:
    """Makes those that are not there yet."""
    from tidelog.protocol import codec, schema

    for module, name, version, encodes in codecs:
        cls = getattr(importlib.import_module(module), name)
        if encodes and (cls, version) not in schema._encoders:
            schema._encoders[cls, version] = codec.compile_encoder(cls, version)
        if not encodes and (cls, version) not in schema._decoders:
            schema._decoders[cls, version] = codec.compile_decoder(cls, version)
