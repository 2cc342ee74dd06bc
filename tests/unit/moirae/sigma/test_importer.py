"""Importing a collection, and a newer version of it: names, local edits and versions stay."""

import json
import shutil
from pathlib import Path

import pytest

import moirae
from moirae.config import load_settings_from_environment
from moirae.config.settings import Settings
from moirae.errors import MoiraeError, ProblemsError, UsageError
from moirae.rules import Rule, read_rule_files
from moirae.sigma import ImportReport, importer, plan
from moirae.sigma.importer import ImportRequest, import_collection, read_map
from tests.unit.moirae.sigma.examples import CURL, CURL_ID, NET, NET_ID, make_workspace, write_rules

FILE = "sigma_process_windows_process_creation.yaml"


class Import:
    """A workspace and a collection in two versions."""

    def __init__(self, folder: Path) -> None:
        self.settings: Settings = make_workspace(folder)
        self.folder = folder / "rules"
        self.collection = write_rules(folder / "sigma", curl=CURL, net=NET)
        self.file = self.folder / FILE

    def run(self, *paths: Path, dry_run: bool = False) -> ImportReport:
        request = ImportRequest(
            paths or (self.collection,), "process", self.folder, key=["computer"], dry_run=dry_run
        )
        return import_collection(self.settings, request)

    def rules(self) -> dict[str, Rule]:
        """The rules of the workspace by Sigma ID."""
        rules, problems = read_rule_files(self.settings.find_rule_files())
        assert not problems
        return {rule.spec.labels["sigma_id"]: rule for rule in rules.rules}

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def change(self, name: str, old: str, new: str) -> None:
        """Change a Sigma file."""
        file = self.collection / f"{name}.yml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    example = Import(tmp_path)
    report = example.run()
    assert report.added == ["download_by_curl-0d4f3f0e", "account_list-7c1e6a57"]
    assert report.files == [FILE]
    assert report.is_complete
    return example


def test_imported_rules_are_valid_and_have_the_key_and_the_id_of_the_stream(
    imported: Import,
) -> None:
    spec = imported.rules()[CURL_ID].spec
    assert (spec.key, spec.id) == (("Computer",), ("Computer", "Image"))
    assert spec.labels["level"] == "high"


def test_second_import_changes_nothing(imported: Import) -> None:
    before = {path: path.read_bytes() for path in imported.folder.iterdir()}
    report = imported.run()
    assert (len(report.unchanged), report.files, report.is_complete) == (2, [], True)
    assert {path: path.read_bytes() for path in imported.folder.iterdir()} == before


def test_title_and_file_may_change(imported: Import) -> None:
    version = imported.rules()[CURL_ID].version
    imported.change("curl", "title: Download by curl", "title: Fetched by curl")
    (imported.collection / "curl.yml").rename(imported.collection / "other.yml")
    report = imported.run()
    assert report.updated == ["download_by_curl-0d4f3f0e"]
    rule = imported.rules()[CURL_ID]
    assert rule.spec.alert == "download_by_curl-0d4f3f0e"
    assert rule.spec.annotations["summary"] == "Fetched by curl"
    assert rule.version == version


def test_local_edits_and_comments_stay(imported: Import) -> None:
    imported.edit(
        "- alert: account_list", "# Ours.\n  - enabled: false  # noisy\n    alert: account_list"
    )
    imported.edit("level: high", "level: medium")
    version = imported.rules()[NET_ID].version
    imported.change("net", "level: low", "level: medium")
    imported.change("curl", "[http, ftp]", "[http, ftp, sftp]")
    report = imported.run()
    assert report.is_complete
    assert sorted(report.updated) == ["account_list-7c1e6a57", "download_by_curl-0d4f3f0e"]
    rules = imported.rules()
    assert (rules[NET_ID].spec.enabled, rules[NET_ID].spec.labels["level"]) == (False, "medium")
    assert rules[CURL_ID].spec.labels["level"] == "medium"
    assert "'sftp'" in (rules[CURL_ID].spec.expr or "")
    assert rules[NET_ID].version == version
    assert "# Ours.\n" in imported.file.read_text()
    assert "enabled: false  # noisy" in imported.file.read_text()


def test_conflict_is_listed_once_and_the_local_edit_stays(imported: Import) -> None:
    imported.edit("'ftp'", "'scp'")
    imported.change("curl", "[http, ftp]", "[http, ftp, sftp]")
    report = imported.run()
    assert [conflict.key for conflict in report.conflicts] == ["expr"]
    assert not report.is_complete
    assert "'scp'" in (imported.rules()[CURL_ID].spec.expr or "")
    assert imported.run().is_complete


def test_rule_that_is_gone_stays_and_is_listed(imported: Import) -> None:
    (imported.collection / "net.yml").unlink()
    report = imported.run()
    assert report.removed == ["account_list-7c1e6a57"]
    assert not report.is_complete
    assert NET_ID in imported.rules()


def test_rule_that_was_deleted_here_stays_deleted(imported: Import) -> None:
    text = imported.file.read_text()
    imported.file.write_text(text[: text.index("  - alert: account_list")])
    report = imported.run()
    assert report.deleted == ["account_list-7c1e6a57"]
    assert list(imported.rules()) == [CURL_ID]


def test_renamed_alert_keeps_its_new_name(imported: Import) -> None:
    imported.edit("alert: account_list-7c1e6a57", "alert: AccountList")
    imported.change("net", "level: low", "level: high")
    report = imported.run()
    assert report.updated == ["AccountList"]
    assert imported.run().unchanged == ["download_by_curl-0d4f3f0e", "AccountList"]


def test_import_is_repeatable_after_a_crash_before_the_lock(
    imported: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported.change("net", "level: low", "level: high")
    write_rules(imported.collection, third=NET.replace(NET_ID, "9" + NET_ID[1:]))
    replace = importer._replace

    def fail_at_lock(path: Path, text: str) -> None:
        if path.suffix == ".lock":
            raise OSError(28, "No space left on device", str(path))
        replace(path, text)

    monkeypatch.setattr(importer, "_replace", fail_at_lock)
    with pytest.raises(MoiraeError, match="No space left"):
        imported.run()
    monkeypatch.setattr(importer, "_replace", replace)
    report = imported.run()
    assert (len(report.unchanged), report.files, report.is_complete) == (3, [], True)
    assert len(imported.rules()) == 3
    lock = json.loads((imported.folder / "sigma_process.lock").read_text())
    assert len(lock["rules"]) == 3


def test_lost_lock_makes_local_edits_conflicts(imported: Import) -> None:
    (imported.folder / "sigma_process.lock").unlink()
    imported.edit("level: high", "level: medium")
    report = imported.run()
    assert [str(conflict.key) for conflict in report.conflicts] == ["labels.level"]
    assert len(imported.rules()) == 2


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    example = Import(tmp_path)
    report = example.run(dry_run=True)
    assert (len(report.added), report.files) == (2, [FILE])
    assert not example.folder.exists()


def test_many_rules_are_divided_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_FILE_RULES", 3)
    example = Import(tmp_path)
    documents = [
        NET.replace(NET_ID, f"{number}{NET_ID[1:]}").replace("name: account_list\n", "")
        for number in range(4)
    ]
    (example.collection / "many.yml").write_text("---\n".join(documents))
    report = example.run()
    assert len(report.added) == 6
    assert report.files == [FILE, FILE.replace(".yaml", "_2.yaml")]
    assert len(example.rules()) == 6
    assert example.run().files == []


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    example = Import(tmp_path)

    def fail(expected: str, **changes: object) -> None:
        values = {
            "paths": [example.collection],
            "stream": "process",
            "folder": example.folder,
            "key": ["Computer"],
        }
        with pytest.raises(UsageError, match=expected):
            import_collection(example.settings, ImportRequest(**{**values, **changes}))  # type: ignore[arg-type]

    fail("no stream 'other' in the workspace; streams: process", stream="other")
    fail("--key is missing", key=None)
    fail("no column 'host'", key=["host"])
    fail("no such file or directory", paths=[tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    fail("no Sigma rules", paths=[tmp_path / "empty"])


def test_map_names_key_fields_and_rows(tmp_path: Path) -> None:
    example = Import(tmp_path)
    map_file = tmp_path / "map.yaml"
    map_file.write_text(
        "key: [User]\nfields: {User: Computer}\n"
        "logsources: [{category: process_creation, where: EventID = 1}]\n"
    )
    request = ImportRequest([example.collection], "process", example.folder, map_file)
    import_collection(example.settings, request)
    spec = example.rules()[CURL_ID].spec
    assert spec.key == ("User",)
    assert "WHERE (EventID = 1)\n" in (spec.expr or "")
    assert "(lower(Computer) = 'system') IS NOT TRUE" in (spec.expr or "")


def test_faults_of_the_map_have_positions(tmp_path: Path) -> None:
    example = Import(tmp_path)
    map_file = tmp_path / "map.yaml"
    map_file.write_text("fields:\n  Image: exe\n")
    request = ImportRequest([example.collection], "process", example.folder, map_file, ["User"])
    with pytest.raises(ProblemsError, match=r"map.yaml:2:10: stream process has no column exe"):
        import_collection(example.settings, request)
    map_file.write_text("field: {}\n")
    with pytest.raises(ProblemsError, match=r"map.yaml:1:1: .*did you mean 'fields'"):
        read_map(map_file)


def test_example_workspace_has_the_rules_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "sigma"
    shutil.copytree(Path(moirae.__file__).parent / "examples" / "sigma", folder)
    settings = load_settings_from_environment(folder / "moirae.yaml")
    request = ImportRequest(
        [folder / "sigma"], "windows", folder / "rules", folder / "sigma_map.yaml"
    )
    report = import_collection(settings, request)
    assert (len(report.unchanged), report.files, report.is_complete) == (4, [], True)


def test_files_outside_the_workspace_are_a_warning(tmp_path: Path) -> None:
    example = Import(tmp_path)
    request = ImportRequest([example.collection], "process", tmp_path / "other", key=["User"])
    (warning,) = import_collection(example.settings, request).warnings
    assert "add it to `rules`" in warning
