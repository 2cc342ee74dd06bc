"""`moirae init`."""

import errno
from pathlib import Path

import pytest

from moirae.cli.init import ExampleWorkspace, init
from moirae.errors import MoiraeError, UsageError


def test_workspace_has_configuration_rules_and_sample_data(tmp_path: Path) -> None:
    init(tmp_path / "w", None, None, None)
    assert (tmp_path / "w" / "moirae.yaml").is_file()
    assert list((tmp_path / "w").glob("rules/*.yaml"))
    assert list((tmp_path / "w").glob("landing/*/sample.jsonl"))


def test_existing_workspace_is_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "moirae.yaml").write_text("streams: {}\n")
    with pytest.raises(MoiraeError, match=r"moirae\.yaml: file exists; nothing was changed"):
        init(tmp_path, None, None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["moirae.yaml"]


def test_workspace_can_be_created_again_after_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "w" / "landing"))

    with monkeypatch.context() as patch:
        patch.setattr("moirae.cli.init._write_sample", fail)
        with pytest.raises(MoiraeError, match="landing: cannot create workspace: No space left"):
            init(tmp_path / "w", None, None, None)
    init(tmp_path / "w", None, None, None)
    assert (tmp_path / "w" / "moirae.yaml").is_file()
    assert not list((tmp_path / "w").glob(".*"))


def test_example_links_the_first_days_of_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "planetlab"
    folder.mkdir(parents=True)
    for day in range(3):
        (folder / f"cpu_{day}.csv.gz").touch()
    init(tmp_path / "w", ExampleWorkspace.PLANETLAB, tmp_path / "data", 2)
    links = sorted((tmp_path / "w" / "landing").glob("cpu_*"))
    assert [link.name for link in links] == ["cpu_0.csv.gz", "cpu_1.csv.gz"]


def test_example_of_sigma_brings_rules_and_rows(tmp_path: Path) -> None:
    init(tmp_path / "w", ExampleWorkspace.SIGMA, None, None)
    for pattern in ("sigma/*.yml", "rules/*.yaml", "rules/*.lock", "landing/*.jsonl"):
        assert list((tmp_path / "w").glob(pattern))
    with pytest.raises(UsageError, match="--data is not for --example sigma"):
        init(tmp_path / "other", ExampleWorkspace.SIGMA, tmp_path, None)


def test_example_without_data_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(MoiraeError, match=r"no file events\.jsonl\.gz.*--data"):
        init(tmp_path / "w", ExampleWorkspace.BGL, tmp_path, None)


def test_options_of_examples_require_an_example(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data and --days require --example"):
        init(tmp_path / "w", None, tmp_path, None)
    with pytest.raises(UsageError, match="--days requires --example planetlab"):
        init(tmp_path / "w", ExampleWorkspace.BGL, tmp_path, 1)
