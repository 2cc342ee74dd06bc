"""Where tasks on other machines have their files."""

from pathlib import Path

import pytest

from archiver.task_environment import DRIVER_ENVIRONMENT, find_task_folder


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"SPARK_EXECUTOR_DIRS": "/spark/app-1:/spark/app-2"}, Path("/spark/app-1")),
        ({"SPARK_LOCAL_DIRS": "/var/data/spark-1"}, Path("/var/data/spark-1")),
        ({"LOCAL_DIRS": "/yarn/1,/yarn/2"}, Path("/yarn/1")),
        ({"SPARK_EXECUTOR_DIRS": "", "SPARK_LOCAL_DIRS": "/a"}, Path("/a")),
        ({}, None),
    ],
)
def test_first_folder_of_the_application(variables: dict[str, str], folder: Path | None) -> None:
    assert find_task_folder({DRIVER_ENVIRONMENT: "{}", **variables}) == folder
    assert find_task_folder(variables) is None
