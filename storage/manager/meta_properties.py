"""`meta.properties` in the root of each data directory: the cluster and node that it belongs to.

    #
    #Sat Nov 21 09:30:12 UTC 2026
    node.id=1                               Java properties; version 1 is KRaft's (KIP-631); version 0 has broker.id
    directory.id=4wl07RXQWDoCwObnqAiIUw     instead of node.id and may lack the cluster id
    version=1                               directory.id (KIP-858) may be missing; UUIDs as in partition.metadata
    cluster.id=cGVlcmNsdXN0ZXIwMDAwMQ       any text without white space

A directory without the file is new if nothing else is in it, and gets one. Where the file is broken or is another
cluster's or node's, nothing is touched: the daemon says so and does not start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ..exceptions import DataDirectoryError, StorageError
from ..io.filesystem import FileSystem, StrPath
from ..log.partition_metadata import ZERO_UUID, decode_uuid, encode_uuid

META_PROPERTIES_FILE = "meta.properties"

_VERSION = 1
_NODE_ID = re.compile(r"[0-9]{1,10}")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CLUSTER_ID = re.compile(r"\S{1,255}")
_SEPARATOR = re.compile(r"\s*[=:]\s*|\s+")


class MetaProperties(NamedTuple):
    """Cluster, node and directory; the directory id is None when the file has none."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None = None


def read_meta_properties(file_system: FileSystem, directory: StrPath) -> MetaProperties | None:
    """Read the directory's file, None if missing. DataDirectoryError when it can't be understood.

    Blocks.
    """
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        data = file_system.read_bytes(path, limit=1 << 16)
    except FileNotFoundError:
        return None
    except StorageError as error:
        raise _broken(path, str(error)) from None
    properties = _parse_properties(path, data)
    version = properties.get("version")
    if version == "1":
        node = _required(path, properties, "node.id")
    elif version == "0":
        node = _required(path, properties, "broker.id")
    else:
        raise _broken(path, "has no version" if version is None else f"has version {version[:20]!r}, not 0 or 1")
    if not _NODE_ID.fullmatch(node) or int(node) >= 2**31:
        raise _broken(path, f"{node[:40]!r} is no node id")
    cluster_id = _required(path, properties, "cluster.id")
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise _broken(path, f"{cluster_id[:40]!r} is no cluster id")
    directory_id = None
    if (text := properties.get("directory.id")) is not None:
        try:
            directory_id = decode_uuid(text)
        except ValueError as error:
            raise _broken(path, f"directory.id: {error}") from None
        if directory_id == ZERO_UUID:
            raise _broken(path, "directory.id is zero")
    return MetaProperties(cluster_id, int(node), directory_id)


def write_meta_properties(file_system: FileSystem, directory: StrPath, properties: MetaProperties) -> None:
    """Write the directory's file, durably. Blocks."""
    lines = [f"version={_VERSION}", f"cluster.id={properties.cluster_id}", f"node.id={properties.node_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={encode_uuid(properties.directory_id)}")
    content = "".join(f"{line}\n" for line in lines)
    file_system.write_atomically(f"{directory}/{META_PROPERTIES_FILE}", content.encode())


def ensure_meta_properties(
    file_system: FileSystem, directory: StrPath, *, cluster_id: str, node_id: int, new_directory_id: UUID
) -> MetaProperties:
    """Check that the directory's file names this node, or create it; returns its contents. Blocks.

    A file without a directory id gets `new_directory_id`. DataDirectoryError when it is broken, or another cluster's
    or node's.
    """
    path = f"{directory}/{META_PROPERTIES_FILE}"
    found = read_meta_properties(file_system, directory)
    if found is None:
        found = MetaProperties(cluster_id, node_id, new_directory_id)
        write_meta_properties(file_system, directory, found)
        return found
    if found.cluster_id != cluster_id:
        raise DataDirectoryError(
            path,
            f"the directory belongs to cluster {found.cluster_id}, not {cluster_id}",
            "choose another log.dirs, or remove the directory if its data is not needed",
        )
    if found.node_id != node_id:
        raise DataDirectoryError(
            path,
            f"the directory belongs to node {found.node_id}, and node.id is {node_id}",
            f"set node.id={found.node_id} or choose another log.dirs",
        )
    if found.directory_id is None:
        found = found._replace(directory_id=new_directory_id)
        write_meta_properties(file_system, directory, found)
    return found


def _broken(path: str, problem: str) -> DataDirectoryError:
    return DataDirectoryError(
        path, problem, "restore the file (version=1, cluster.id, node.id) or move the directory away to start a new one"
    )


def _required(path: str, properties: Mapping[str, str], name: str) -> str:
    value = properties.get(name)
    if value is None:
        raise _broken(path, f"has no {name}")
    return value


def _parse_properties(path: str, data: bytes) -> dict[str, str]:
    """Parse Java's property format as far as these files use it: comments, `=` or `:`, escapes; no continued lines."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _broken(path, "is not a text file") from None
    if text and not text.endswith("\n"):
        raise _broken(path, "ends in the middle of a line")
    properties: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, *rest = _SEPARATOR.split(stripped, maxsplit=1)
        properties[name] = _ESCAPE.sub(_unescape, rest[0]) if rest else ""
    return properties


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped)
