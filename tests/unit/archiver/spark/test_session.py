"""Settings of Spark sessions that need no running Spark."""

import io
import logging
import sys
from pathlib import Path

import pytest

from archiver.errors import NotInstalled
from archiver.spark import session


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(session, "JARS", tmp_path)
    for name in ("moirae.jar", "a.jar"):
        (tmp_path / name).touch()
    return tmp_path


def test_missing_jars_are_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "JARS", tmp_path)
    (tmp_path / "a.jar").touch()
    with pytest.raises(NotInstalled, match="run `moirae setup`"):
        session.jar_settings("local[2]")


def test_local_master_loads_jars_from_disk_and_listens_on_loopback(jars: Path) -> None:
    settings = session.jar_settings("local[2]")
    assert settings["spark.driver.extraClassPath"] == f"{jars}/a.jar:{jars}/moirae.jar"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.hadoop.fs.file.impl"] == "org.moirae.files.PlainFiles"


def test_cluster_distributes_the_jars(jars: Path) -> None:
    settings = session.jar_settings("spark://host:7077")
    assert settings == {"spark.jars": f"{jars}/a.jar,{jars}/moirae.jar"}


def test_properties_of_a_cluster_are_read_from_the_named_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(session.PROPERTIES_VARIABLE, "/conf/of pod/spark.properties")
    arguments = session.launcher_environment("k8s://https://host")["PYSPARK_SUBMIT_ARGS"]
    file = "'/conf/of pod/spark.properties'"
    assert arguments == f"--deploy-mode client --properties-file {file} pyspark-shell"
    assert session.launcher_environment("local[2]")["PYSPARK_SUBMIT_ARGS"] == "pyspark-shell"


def test_class_archive_is_an_option_only_if_it_exists(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    assert "SharedArchiveFile" not in session.java_options(archive)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in session.java_options(archive)


@pytest.mark.parametrize(
    ("encoding", "locale"), [("utf-8", "C.UTF-8"), ("ascii", "C.UTF-8"), ("iso8859-1", None)]
)
def test_java_encodes_file_names_as_python_does(
    encoding: str, locale: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: encoding)
    assert session.launcher_environment("local[1]").get("LC_ALL") == locale


def test_output_of_the_jvm_is_logged_without_its_module_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    output = b"WARNING: Using incubator modules: jdk.incubator.vector\n\nout of memory\n"
    with caplog.at_level(logging.WARNING):
        session._log_jvm_output(io.BytesIO(output))
    assert [record.getMessage() for record in caplog.records] == ["out of memory"]


@pytest.mark.parametrize(
    ("folder", "has_sockets"), [("/tmp/moirae-0/1-a", True), ("/" + "a" * 64, False)]
)
def test_workers_use_unix_domain_sockets_unless_their_paths_are_too_long(
    folder: str, has_sockets: bool
) -> None:
    settings = session._socket_settings(Path(folder))
    assert ("spark.python.unix.domain.socket.enabled" in settings) is has_sockets
