"""Certificates of an authority that a test makes: files as settings of TLS name them."""

from __future__ import annotations

from pathlib import Path

import trustme


def authority_in(folder: Path) -> trustme.CA:
    """A new authority; its certificate is `ca.pem` of the folder, `server.pem` one for this machine with its key."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    write_identity(authority, folder / "server.pem", "localhost", "127.0.0.1")
    return authority


def write_identity(authority: trustme.CA, path: Path, *identities: str, common_name: str | None = None) -> None:
    """A certificate with its key."""
    issued = authority.issue_cert(*identities, common_name=common_name)
    issued.private_key_and_cert_chain_pem.write_to_path(path)
