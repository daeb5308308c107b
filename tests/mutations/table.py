"""All mutations: one list from the modules of this folder, which are by area."""

from __future__ import annotations

from . import (
    of_backup,
    of_broker,
    of_cleaner,
    of_clients,
    of_commands,
    of_kernels,
    of_lessons,
    of_log,
    of_pipeline,
    of_producers,
    of_recovery,
    of_scrub,
)
from .mutation import Mutation

AREAS = (
    of_log, of_recovery, of_producers, of_scrub, of_cleaner, of_kernels, of_broker, of_backup, of_clients, of_commands,
    of_pipeline, of_lessons,
)  # fmt: skip
MUTATIONS: list[Mutation] = [mutation for area in AREAS for mutation in area.MUTATIONS]
