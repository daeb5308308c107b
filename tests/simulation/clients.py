"""Which class is which kind of client of `plan.CLIENTS`."""

from __future__ import annotations

from simulation import administrator, groups, looker, readers, remaker, share, wide_reader, writers
from simulation.work import Client

CLIENTS: dict[str, type[Client]] = {
    "writer": writers.Writer,
    "idempotent": writers.IdempotentWriter,
    "old-writer": writers.OldWriter,
    "transactional": writers.TransactionalWriter,
    "reader": readers.Reader,
    "old-reader": readers.OldReader,
    "committer": readers.Committer,
    "classic-member": groups.ClassicMember,
    "consumer-member": groups.ConsumerMember,
    "share-member": share.ShareMember,
    "remaker": remaker.Remaker,
    "looker": looker.Looker,
    "wide-reader": wide_reader.WideReader,
    "ahead-writer": writers.AheadWriter,
    "administrator": administrator.Administrator,
}
