"""Topics of a broker that wants TLS and a password, and records of transactions."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from moirae.config.streams import Kafka
from moirae.errors import TopicError
from moirae.live.sources.topics.client_settings import ClientSettings
from tests.broker import PLAIN_LOGIN, USER, Broker
from tests.certificates import make_certificate
from tests.topics import ReaderWorld, Topics, needs_broker, reader_world, row

pytestmark = [needs_broker, pytest.mark.services]

PASSWORD = secrets.token_hex(8)
PROPERTIES = f"""
# A continued line, as Java has it.
security.protocol = SASL_SSL
ssl.truststore.type: PEM
ssl.truststore.location=cert.pem
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN_LOGIN} required \\
  username="{USER}" password="${{KAFKA_PASSWORD}}";
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder)
    (folder / "client.properties").write_text(PROPERTIES)
    return folder


@pytest.fixture(scope="module")
def topics(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    broker = Broker(tmp_path_factory.mktemp("broker"), certificate, PASSWORD)
    broker.start()
    yield Topics(
        broker,
        security_protocol="SASL_SSL",
        ssl_ca_location=str(certificate / "cert.pem"),
        sasl_mechanism="PLAIN",
        sasl_username=USER,
        sasl_password=PASSWORD,
    )
    broker.kill()


def _problem(world: ReaderWorld) -> str:
    """What is said of the topic `x` after several tries."""
    reader = world.reader("x")
    reader.outage._clock = iter(range(0, 10_000, 10)).__next__
    for _ in range(3):
        assert reader.run_once() is not None
    assert reader.outage.problem is not None
    return reader.outage.problem.error


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_topic_is_read_with_the_settings_of_a_file(
    topics: Topics,
    certificate: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    engine: Any,
) -> None:
    topics.create(engine)
    topics.send_rows(engine, "a", 10)
    monkeypatch.setenv("KAFKA_PASSWORD", "wrong-password")
    properties = str(certificate / "client.properties")
    with reader_world(spark, engine, topics.servers, properties, x=engine) as world:
        problem = _problem(world)
        assert "refuse to connect" in problem and "wrong-password" not in problem
        monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
        world.read("x")
        assert world.count("x") == 10


@pytest.mark.slow
def test_records_of_open_and_aborted_transactions_are_not_read(
    topics: Topics, certificate: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    topics.create("committed")
    producers = [topics.begin_transaction(f"p{number}") for number in range(3)]
    for number, producer in enumerate(producers):
        producer.produce("committed", row(f"t{number}"))
        producer.flush(30)
    producers[0].commit_transaction(30)
    producers[1].abort_transaction(30)
    topics.send_rows("committed", "after", 1)
    properties = str(certificate / "client.properties")
    with reader_world(spark, "local", topics.servers, properties, x="committed") as world:
        world.read("x")
        # The third one is open: what came after it waits for its end.
        assert (world.count("x", "t"), world.count("x")) == (1, 1)
        producers[2].commit_transaction(30)
        world.read("x")
        assert (world.count("x", "t2"), world.count("x")) == (1, 3)
        assert world.losses() == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("securty.protocol=SSL", "has the unknown setting securty.protocol"),
        ("sasl.username=me", "has the setting sasl.username of librdkafka: use sasl.jaas.config"),
        ("bootstrap.servers=c:1", "bootstrap.servers cannot be set: write `servers`"),
        ("group.id=mine", "group.id cannot be set: the ledger of Moirae has the offsets"),
        ("ssl.key.password=${NOT_SET}", "the environment variable NOT_SET is not set"),
        (r"client.id=\u12", "malformed"),
    ],
)
def test_wrong_file_of_properties_is_refused_with_its_name(
    spark: SparkSession, tmp_path: Path, line: str, reason: str
) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text(line)
    settings = ClientSettings(spark, Kafka(servers="b:1", topic="t", properties=str(path)))
    with pytest.raises(TopicError, match=r"topic t is not read: .*kafka\.properties") as refused:
        settings.load()
    assert reason in str(refused.value)


def test_file_of_properties_may_be_shared_with_other_clients(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "# As Confluent Cloud proposes it.\nbootstrap.servers=b:1\nsecurity.protocol=SASL_SSL\n"
        "client.dns.lookup=use_all_dns_ips\nsession.timeout.ms=45000\nacks=all\nretries=3\n"
        "schema.registry.url=https://r\nbasic.auth.credentials.source=USER_INFO\n"
        "basic.auth.user.info=me:secret\n"
    )
    settings = ClientSettings(spark, Kafka(servers="b:1", topic="t", properties=str(path))).load()
    assert settings == {
        "bootstrap.servers": "b:1",
        "isolation.level": "read_committed",
        "client.dns.lookup": "use_all_dns_ips",
        "security.protocol": "SASL_SSL",
        "session.timeout.ms": "45000",
    }


def test_missing_file_of_properties_is_named(spark: SparkSession, tmp_path: Path) -> None:
    kafka = Kafka(servers="b:1", topic="t", properties=str(tmp_path / "none.properties"))
    with pytest.raises(TopicError, match=r"none\.properties cannot be read: No such file"):
        ClientSettings(spark, kafka).load()
