"""Our own client for `tidelog produce` and `consume`: the pipeline's, which finds leaders and tries again, with our arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...pipeline.exceptions import PipelineError
from ...pipeline.wire.client import KafkaClient
from ...pipeline.wire.settings import ClientSettings
from ...protocol.client_security import ClientSecurity
from .kafka_client import KafkaFailure, bootstrap_of, security_of

FETCH_BYTES = 16 << 20


@contextmanager
def own_client(options: Any, client_id: str, on_wait: Callable[[str], None]) -> Iterator[KafkaClient]:
    """The client of a command's arguments; its errors become KafkaFailure. `on_wait` is told why something is tried again."""
    host, _, port = bootstrap_of(options.bootstrap_server).rpartition(":")
    settings = ClientSettings(
        ((host.strip("[]"), int(port)),),
        client_id=client_id,
        software="tidelog",
        fetch_max_bytes=FETCH_BYTES,
        security=security_of(options) or ClientSecurity(),
    )
    try:
        with KafkaClient(settings, on_wait=on_wait) as client:
            yield client
    except PipelineError as error:
        raise KafkaFailure(str(error)) from None
