"""What Spark is started with."""

from pathlib import Path

import pytest

from moirae.config import build_spark_settings
from moirae.errors import MoiraeError, ProblemsError
from tests.unit.moirae.config.workspace_files import STREAM, load

_SECRET = "spark.authenticate.secret"


def test_local_master_has_the_settings_of_the_file_alone(tmp_path: Path) -> None:
    settings = load(tmp_path, f"{STREAM}spark: {{conf: {{spark.driver.memory: 1g}}}}\n")
    assert build_spark_settings(settings, "live") == {"spark.driver.memory": "1g"}


def test_cluster_is_authenticated_and_encrypted(tmp_path: Path) -> None:
    spark = "spark: {master: 'spark://host:1', secret: hidden, cores: {live: 5, recall: 3}}\n"
    settings = load(tmp_path, f"{STREAM}{spark}")
    live = build_spark_settings(settings, "live")
    assert live[_SECRET] == "hidden"
    assert live["spark.authenticate"] == live["spark.network.crypto.enabled"] == "true"
    assert live["spark.io.encryption.enabled"] == "true"
    assert live["spark.cores.max"] == "5"
    assert build_spark_settings(settings, "recall")["spark.cores.max"] == "3"
    assert "hidden" not in repr(settings)


def test_standalone_master_without_a_secret_is_refused_with_the_remedy(tmp_path: Path) -> None:
    settings = load(tmp_path, f"{STREAM}spark: {{master: 'spark://host:1'}}\n")
    with pytest.raises(MoiraeError, match=r'a secret is required.*Add secret: "\$\{MOIRAE_SPARK'):
        build_spark_settings(settings, "live")


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:6443"])
def test_managers_of_clusters_have_secrets_of_their_own(tmp_path: Path, master: str) -> None:
    spark = f"spark: {{master: '{master}', cores: {{live: 4, recall: 1}}, conf: {{spark.executor.cores: 2}}}}\n"
    conf = build_spark_settings(load(tmp_path, f"{STREAM}{spark}"), "live")
    assert _SECRET not in conf
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.executor.instances"] == "2"


def test_dynamic_allocation_is_limited_by_the_cores(tmp_path: Path) -> None:
    spark = (
        "spark: {master: yarn, cores: {live: 4, recall: 1}, "
        "conf: {spark.dynamicAllocation.enabled: true}}\n"
    )
    conf = build_spark_settings(load(tmp_path, f"{STREAM}{spark}"), "live")
    assert conf["spark.dynamicAllocation.maxExecutors"] == "4"
    assert "spark.executor.instances" not in conf


@pytest.mark.parametrize(
    ("master", "conf"),
    [
        ("spark://host:1", "spark.cores.max: 8"),
        ("yarn", "spark.executor.instances: 8"),
        ("yarn", "spark.dynamicAllocation.enabled: true, spark.dynamicAllocation.maxExecutors: 8"),
    ],
)
def test_cores_are_set_once(tmp_path: Path, master: str, conf: str) -> None:
    spark = f"spark: {{master: '{master}', secret: x, cores: {{live: 4, recall: 1}}, conf: {{{conf}}}}}\n"
    with pytest.raises(MoiraeError, match=r"and spark\.cores are both set: remove one"):
        build_spark_settings(load(tmp_path, f"{STREAM}{spark}"), "live")


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ("spark.authenticate: false", "must not be off"),
        ("spark.network.crypto.enabled: 'false'", "must not be off"),
        (f"{_SECRET}: x", "use the key spark.secret"),
    ],
)
def test_protection_cannot_be_switched_off(tmp_path: Path, conf: str, reason: str) -> None:
    spark = f"spark: {{master: yarn, conf: {{{conf}}}}}\n"
    with pytest.raises(MoiraeError, match=reason):
        build_spark_settings(load(tmp_path, f"{STREAM}{spark}"), "live")


def test_local_master_has_no_cores_of_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(ProblemsError, match=r"spark\.cores: the cores of a local master"):
        load(tmp_path, f"{STREAM}spark: {{cores: {{live: 1, recall: 1}}}}\n")
