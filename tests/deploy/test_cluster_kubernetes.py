"""The resources of the Spark operator, and what Spark makes of the arguments with which it starts.

No cluster runs here: these are checks of the files, and dry runs of Spark's own launcher.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pyspark
import pytest
from pyspark.sql import SparkSession
from ruamel.yaml import YAML

from archiver.spark.session import launcher_environment
from moirae.config import build_spark_settings
from moirae.config.settings import Settings, load_settings
from tests.deploy import DEPLOY, read_yaml

FOLDER = DEPLOY / "cluster" / "kubernetes"
APPLICATIONS = ("live", "recall")
API_VERSION = "1.37"
KUSTOMIZATION = read_yaml(FOLDER / "kustomization.yaml")

# Of the definition of SparkApplication, v1beta2, of the operator's version 2.5: names and types of
# the fields that the files here may use. Core types such as volumes are checked as those of a pod.
_TEXT, _NUMBER, _LIST, _MAP = ({"type": t} for t in ("string", "integer", "array", "object"))
_TEXTS = {"type": "object", "additionalProperties": _TEXT}


def _record(required: str = "", **fields: Mapping[str, Any]) -> dict[str, Any]:
    names = required.split()
    return {
        "type": "object",
        "properties": fields,
        "required": names,
        "additionalProperties": False,
    }


_POD = {
    "cores": {"type": "integer", "minimum": 1},
    "memory": _TEXT,
    "memoryOverhead": _TEXT,
    "labels": _TEXTS,
    "envFrom": _LIST,
    "volumeMounts": _LIST,
    "podSecurityContext": _MAP,
    "securityContext": _MAP,
    "terminationGracePeriodSeconds": _NUMBER,
    "serviceAccount": _TEXT,
}
_SCHEMA = _record(
    "apiVersion kind metadata spec",
    apiVersion={"const": "sparkoperator.k8s.io/v1beta2"},
    kind={"const": "SparkApplication"},
    metadata=_record("name", name=_TEXT),
    spec=_record(
        "driver executor mainApplicationFile sparkVersion type",
        type={"enum": ["Java", "Python", "Scala", "R"]},
        mode={"enum": ["cluster", "client"]},
        sparkVersion=_TEXT,
        image=_TEXT,
        mainApplicationFile=_TEXT,
        arguments={"type": "array", "items": _TEXT},
        sparkConf=_TEXTS,
        volumes=_LIST,
        restartPolicy=_record(
            type={"enum": ["Never", "Always", "OnFailure"]},
            onFailureRetries=_NUMBER,
            onFailureRetryInterval=_NUMBER,
            onSubmissionFailureRetries=_NUMBER,
            onSubmissionFailureRetryInterval=_NUMBER,
        ),
        driver=_record(**_POD),
        executor=_record(**_POD, instances={"type": "integer", "minimum": 1}),
    ),
)


def _read_all(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(FOLDER / name))


def _settings(tmp_path: Path, master: str = "") -> Settings:
    text = (FOLDER / "moirae.yaml").read_text()
    if master:
        text = re.sub(r"master: \S+", f"master: {master}", text)
    (tmp_path / "moirae.yaml").write_text(text)
    environment = {"MOIRAE_DATABASE": "host=postgres dbname=moirae", "MOIRAE_KAFKA": "kafka:9092"}
    return load_settings(tmp_path / "moirae.yaml", environment)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_application_follows_the_definition(name: str) -> None:
    jsonschema.validate(read_yaml(FOLDER / f"{name}.yaml"), _SCHEMA)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_unknown_fields_are_refused(name: str) -> None:
    application = read_yaml(FOLDER / f"{name}.yaml")
    application["spec"]["executor"]["replicas"] = 2
    with pytest.raises(jsonschema.ValidationError, match="replicas"):
        jsonschema.validate(application, _SCHEMA)


@pytest.mark.parametrize("role", ["driver", "executor"])
@pytest.mark.parametrize("name", APPLICATIONS)
def test_parts_of_pods_follow_the_schema_of_the_api(name: str, role: str) -> None:
    spec = read_yaml(FOLDER / f"{name}.yaml")["spec"]
    part = spec[role]
    container = {field: part[field] for field in ("envFrom", "volumeMounts", "securityContext")}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": part["labels"]},
        "spec": {
            "containers": [{"name": role, "image": spec["image"], **container}],
            "securityContext": part["podSecurityContext"],
            "volumes": spec["volumes"],
        },
    }
    kubernetes_validate.validate(pod, API_VERSION, strict=True)
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in part["volumeMounts"]} <= volumes
    assert part["podSecurityContext"]["runAsNonRoot"] is True
    assert part["securityContext"]["readOnlyRootFilesystem"] is True
    assert part["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("file", ["server.yaml", "driver-account.yaml"])
def test_other_resources_follow_the_schema_of_the_api(file: str) -> None:
    for manifest in _read_all(file):
        kubernetes_validate.validate(manifest, API_VERSION, strict=True)


def test_files_refer_to_what_exists() -> None:
    listed = {*KUSTOMIZATION["resources"], "kustomization.yaml", "moirae.yaml"}
    assert {path.name for path in FOLDER.glob("*.yaml")} == listed
    for entry in KUSTOMIZATION["configMapGenerator"]:
        for file in entry["files"]:
            assert (FOLDER / file.rpartition("=")[2]).is_file()
    maps = {entry["name"] for entry in KUSTOMIZATION["configMapGenerator"]}
    accounts = {m["metadata"]["name"] for m in _read_all("driver-account.yaml")}
    for name in APPLICATIONS:
        spec = read_yaml(FOLDER / f"{name}.yaml")["spec"]
        (projected,) = [v["projected"] for v in spec["volumes"] if "projected" in v]
        assert {source["configMap"]["name"] for source in projected["sources"]} == maps
        assert {spec["driver"]["serviceAccount"]} == accounts
    secret = read_yaml(DEPLOY / "kubernetes" / "secret.example.yaml")
    assert secret["metadata"]["namespace"] == KUSTOMIZATION["namespace"]


def test_workspace_differs_in_the_keys_of_a_cluster_alone(tmp_path: Path) -> None:
    workspace = read_yaml(FOLDER / "moirae.yaml")
    for key in ("landing", "engine", "spark"):
        del workspace[key]
    assert workspace == read_yaml(DEPLOY / "workspace" / "moirae.yaml")
    for name in APPLICATIONS:
        spec = read_yaml(FOLDER / f"{name}.yaml")["spec"]
        conf = build_spark_settings(_settings(tmp_path), "live" if name == "live" else "recall")
        assert conf["spark.executor.instances"] == str(spec["executor"]["instances"])
        assert spec["sparkVersion"] == pyspark.__version__
        assert spec["arguments"][:2] == ["run", name]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that print their name, what they were called with, and the properties' file."""
    for name in ("moirae", "java"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" "properties=$MOIRAE_SPARK_PROPERTIES"\n')
        program.chmod(0o755)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho /spark\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def _run_entrypoint(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        ["sh", str(FOLDER / "entrypoint.sh"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.usefixtures("programs")
def test_driver_is_a_process_of_the_workspace() -> None:
    arguments = ["--properties-file", "/opt/spark/conf/spark.properties", "--class", "a.B"]
    command = ["local:///moirae/__main__.py", "run", "live", "--log-format", "json"]
    assert _run_entrypoint("driver", *arguments, *command) == (
        "moirae run live --log-format json properties=/opt/spark/conf/spark.properties"
    )
    assert _run_entrypoint("run", "server") == "moirae run server properties="


@pytest.mark.usefixtures("programs")
def test_executor_has_the_options_that_spark_has_set() -> None:
    output = _run_entrypoint(
        "executor",
        SPARK_JAVA_OPT_0="-Dspark.driver.port=7078",
        SPARK_JAVA_OPT_1="-Xss16m",
        SPARK_EXECUTOR_MEMORY="1g",
        SPARK_DRIVER_URL="spark://CoarseGrainedScheduler@driver:7078",
        SPARK_EXECUTOR_ID="1",
        SPARK_EXECUTOR_CORES="1",
        SPARK_APPLICATION_ID="app",
        SPARK_EXECUTOR_POD_IP="10.0.0.1",
        SPARK_RESOURCE_PROFILE_ID="0",
        SPARK_EXECUTOR_POD_NAME="pod",
    )
    for part in ("-Dspark.driver.port=7078", "-Xss16m", "-Xmx1g", "-cp /spark/jars/*"):
        assert f"{part} " in output
    assert "--executor-id 1 --cores 1 --app-id app --hostname 10.0.0.1" in output


def _prepare(spark: SparkSession, *arguments: str) -> tuple[list[str], Any, str]:
    """What Spark's launcher would run: arguments, configuration and class. It runs nothing."""
    jvm: Any = spark.sparkContext._jvm
    environment = jvm.java.util.HashMap()
    environment.put("HADOOP_CONF_DIR", "/nowhere")  # YARN's addresses
    scala_environment = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(environment)
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(arguments))
    parsed = jvm.org.apache.spark.deploy.SparkSubmitArguments(sequence, scala_environment)
    none = jvm.scala.Option.apply(None)
    prepared = jvm.org.apache.spark.deploy.SparkSubmit().prepareSubmitEnvironment(parsed, none)
    child = prepared._1()
    return [child.apply(n) for n in range(child.size())], prepared._3(), prepared._4()


def _conf_options(conf: Mapping[str, str]) -> list[str]:
    return [text for item in conf.items() for text in ("--conf", "=".join(item))]


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_dry_run_of_the_submission_by_the_operator(name: str, spark: SparkSession) -> None:
    """As the operator calls spark-submit; it also passes the pods' parts by a template."""
    spec = read_yaml(FOLDER / f"{name}.yaml")["spec"]
    conf = {
        **spec["sparkConf"],
        "spark.kubernetes.namespace": KUSTOMIZATION["namespace"],
        "spark.kubernetes.container.image": spec["image"],
        "spark.executor.instances": str(spec["executor"]["instances"]),
    }
    child, prepared, main = _prepare(
        spark,
        *("--master", "k8s://https://10.0.0.1:443", "--deploy-mode", spec["mode"]),
        *("--name", name, *_conf_options(conf), spec["mainApplicationFile"], *spec["arguments"]),
    )
    assert main == "org.apache.spark.deploy.k8s.submit.KubernetesClientApplication"
    assert prepared.get("spark.kubernetes.container.image") == spec["image"]
    arguments = [child[n + 1] for n, text in enumerate(child) if text == "--arg"]
    assert arguments == spec["arguments"]


@pytest.mark.slow
@pytest.mark.parametrize("master", ["k8s://https://10.0.0.1:443", "yarn"])
def test_dry_run_of_a_session_on_a_cluster(
    master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """As a process starts its JVM: with its own settings, before those of the operator's file."""
    properties = tmp_path / "spark.properties"
    properties.write_text("spark.kubernetes.driver.pod.name=pod\nspark.executor.instances=7\n")
    monkeypatch.setenv("MOIRAE_SPARK_PROPERTIES", str(properties))
    conf = build_spark_settings(_settings(tmp_path, master), "live")
    options = launcher_environment(master)["PYSPARK_SUBMIT_ARGS"].split()
    _, prepared, main = _prepare(spark, "--master", master, *_conf_options(conf), *options)
    assert main == "org.apache.spark.api.python.PythonGatewayServer"
    assert prepared.get("spark.submit.deployMode") == "client"
    assert prepared.get("spark.executor.instances") == "2"
    assert prepared.get("spark.kubernetes.driver.pod.name") == "pod"
    assert prepared.get("spark.authenticate") == "true"
    assert prepared.get("spark.io.encryption.enabled") == "true"
    assert prepared.get("spark.master") in (master, f"k8s://{master.removeprefix('k8s://')}")
