"""Source and sink over SASL_SSL, and that no page, plan or message of Spark's shows a password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.certificates import authority_in
from support.inside import add_scram_user
from support.tokens import AUDIENCE, ISSUER, KeyServer, key_set, private_key, public_jwk, token_of
from tidelog.testing import Broker

SECRET = "open, sesame"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def login(password: str) -> str:
    return f'{MODULE} required username="alice" password="{password}";'


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("tls")
    authority_in(folder)
    (folder / "keys.json").write_bytes(key_set(public_jwk(private_key())))
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": folder / "server.pem",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": "1",
    }
    with Broker(settings) as broker:
        broker.create_topic("t", 2)
        mechanism = "SCRAM-SHA-512"
        add_scram_user(broker, "alice", SECRET, (mechanism,))
        yield {
            "kafka.bootstrap.servers": broker.listener("SASL_SSL"),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": login(SECRET),
            "kafka.ssl.truststore.location": str(folder / "ca.pem"),
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.key.password": SECRET,
        }


def shown(spark: Any) -> str:
    """All that the SQL page has of what ran so far."""
    found = []
    executions = spark._jsparkSession.sharedState().statusStore().executionsList().iterator()
    while executions.hasNext():
        one = executions.next()
        found += [one.physicalPlanDescription(), one.description(), one.details(), one.modifiedConfigs().toString()]
    assert found
    return "".join(found)


def test_a_user_reads_writes_and_streams_and_no_secret_is_shown(
    spark: Any, options: dict[str, str], tmp_path: Path
) -> None:
    rows = spark.range(100).selectExpr("cast(id as string) as value")
    rows.write.format("tidelog").options(**options, topic="t", delivery="exactly-once").mode("append").save()
    reader = spark.read.format("tidelog").options(**options, subscribe="t", isolation="read_committed")
    back = reader.load()
    assert sorted(int(row.value) for row in back.collect()) == list(range(100))
    stream = spark.readStream.format("tidelog").options(**options, subscribe="t", startingOffsets="earliest").load()
    writer = stream.select("value").writeStream.format("tidelog").options(**options, topic="t")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert reader.load().count() == 200
    plans = [frame._jdf.queryExecution().toString() for frame in (rows, back)]
    told = "".join([*plans, query.lastProgress.json, str(query.status), str(query.explain(True))])
    for text in (told, shown(spark)):
        assert "sesame" not in text
    assert all("sesame" not in path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("by", ["sasl.jaas.config", "client.credentials", "token"])
def test_tokens_of_an_issuer_are_taken_and_not_shown(spark: Any, options: dict[str, str], by: str) -> None:
    answer = json.dumps({"access_token": token_of(), "expires_in": 3600}).encode()
    prefix, module = "kafka.sasl.oauthbearer.", "org.apache.kafka.common.security.oauthbearer."
    own = token_of()
    with KeyServer(answer) as issuer:
        asked = {**options, "kafka.sasl.mechanism": "OAUTHBEARER", f"{prefix}token.endpoint.url": issuer.url}
        del asked["kafka.sasl.jaas.config"]
        if by == "sasl.jaas.config":
            asked["kafka.sasl.login.callback.handler.class"] = f"{module}OAuthBearerLoginCallbackHandler"
            login = f'{module}OAuthBearerLoginModule required clientId="etl" clientSecret="{SECRET}";'
            asked["kafka.sasl.jaas.config"] = login
        elif by == "client.credentials":
            asked |= {f"{prefix}{by}.client.id": "etl", f"{prefix}{by}.client.secret": SECRET}
        else:
            del asked[f"{prefix}token.endpoint.url"]
            asked[f"{prefix}token"] = own
        rows = spark.range(10).selectExpr("cast(id as string) as value")
        rows.write.format("tidelog").options(**asked, topic="t").mode("append").save()
        back = spark.read.format("tidelog").options(**asked, subscribe="t").load()
        assert back.count() >= 10
        assert bool(issuer.requests) == (by != "token")
        told = "".join([back._jdf.queryExecution().toString(), shown(spark)])
        assert "sesame" not in told
        assert own not in told


def test_a_wrong_password_is_told_at_once_without_it(spark: Any, options: dict[str, str]) -> None:
    wrong = {**options, "kafka.sasl.jaas.config": login("close sesame")}
    with pytest.raises(Exception, match="does not let user 'alice' in") as caught:
        spark.read.format("tidelog").options(**wrong, subscribe="t").load().count()
    assert "sesame" not in str(caught.value)
    with pytest.raises(Exception, match="does not let user 'alice' in") as caught:
        spark.range(1).selectExpr("'x' as value").write.format("tidelog").options(**wrong, topic="t").mode(
            "append"
        ).save()
    assert "sesame" not in str(caught.value)
