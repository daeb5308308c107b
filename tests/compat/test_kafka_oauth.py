"""Our own clients before Apache Kafka that asks for tokens: let in, told why not, and in again before a session ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.kafka_broker import free_port, kafka
from support.tokens import AUDIENCE, ISSUER, key_set, private_key, public_jwk, token_of
from tidelog.cli.main import main
from tidelog.pipeline.exceptions import AuthenticationError
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings

SESSION_MS = 3_600_000
JAVA = "org.apache.kafka.common.security.oauthbearer."


class Kafka(NamedTuple):
    address: str
    token: Path

    def settings(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.token.as_uri(),
            "sasl.oauthbearer.extensions": "pool=p1",
        }  # fmt: skip

    def client(self) -> KafkaClient:
        return KafkaClient(ClientSettings.parse(self.address, self.settings()))


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    folder = tmp_path_factory.mktemp("kafka")
    keys = folder / "keys.json"
    keys.write_bytes(key_set(public_jwk(private_key(), use="sig", alg="RS256")))
    plain, tokens, controller = free_port(), free_port(), free_port()
    ours = f"PLAINTEXT://127.0.0.1:{plain},TOKENS://127.0.0.1:{tokens}"
    settings = {
        "port": str(plain), "listeners": f"{ours},CONTROLLER://127.0.0.1:{controller}", "advertised_listeners": ours,
        "controller_quorum_voters": f"1@127.0.0.1:{controller}", "sasl_enabled_mechanisms": "OAUTHBEARER",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TOKENS:SASL_PLAINTEXT",
        "listener_name_tokens_oauthbearer_sasl_jaas_config": f"{JAVA}OAuthBearerLoginModule required;",
        "listener_name_tokens_oauthbearer_sasl_server_callback_handler_class": f"{JAVA}OAuthBearerValidatorCallbackHandler",
        "listener_name_tokens_oauthbearer_connections_max_reauth_ms": str(SESSION_MS),
        "sasl_oauthbearer_jwks_endpoint_url": keys.as_uri(), "sasl_oauthbearer_expected_audience": AUDIENCE,
        "sasl_oauthbearer_expected_issuer": ISSUER,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as environment:
        prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        allowed = (f"{prefix}.{kind}={keys.as_uri()}" for kind in ("urls", "files"))
        environment.setenv("JAVA_TOOL_OPTIONS", " ".join(allowed))
        with kafka(folder, is_new=True, **settings):
            yield Kafka(f"127.0.0.1:{tokens}", folder / "token")


def test_the_pipelines_client_gets_in_and_stays_in(peer: Kafka) -> None:
    peer.token.write_text(token_of())
    with peer.client() as client:
        assert client.metadata(None).topics == []
        connection = client.any_connection()
        first = connection.session
        assert first is not None, "a session ends with its token"
        connection.session = (0.0, first[1])  # most of it is over
        client.metadata(None)
        assert client.any_connection() is connection, "renewed on the connection that there is"
        assert connection.session is not None
        assert connection.session[0] > 0.0


def test_who_has_another_token_is_told_so(peer: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in peer.settings().items()))
    command = ["topics", "list", "--bootstrap-server", peer.address, "--command-config", str(file)]
    for bad in (token_of(exp=1), token_of(aud="another"), token_of(private_key("RSA", 1)), "opaque"):
        peer.token.write_text(bad)
        with (
            peer.client() as client,
            pytest.raises(AuthenticationError, match=r"the token's user in: .*invalid_token") as caught,
        ):
            client.metadata(None)
        assert main(command) == 1
        error = capsys.readouterr().err
        assert "invalid_token" in error
        assert bad not in error + str(caught.value)
    peer.token.write_text(token_of())
    assert main(command) == 0
