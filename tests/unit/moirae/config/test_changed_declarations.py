"""Changes of streams and relations of the workspace file."""

from pathlib import Path

from moirae.config import describe_changed_declarations, digest_declarations
from tests.unit.moirae.config.workspace_files import load

STREAM = "{columns: {ts: timestamp, host: string}, time: ts, source: {http: true}}"
RELATION = "{columns: {host: string}, key: [host], source: {file: hosts.csv}}"
FILE = f"streams:\n  a: {STREAM}\n  b: {STREAM}\nrelations:\n  hosts: {RELATION}\n"


def test_streams_and_relations_are_compared(tmp_path: Path) -> None:
    declared = digest_declarations(load(tmp_path, FILE))
    same = digest_declarations(load(tmp_path, f"no_input: 5m\n{FILE}"))
    assert describe_changed_declarations(declared, same) is None
    changed = FILE.replace("  b:", "  c:").replace("hosts.csv", "others.csv")
    present = digest_declarations(load(tmp_path, changed))
    assert describe_changed_declarations(declared, present) == (
        "restart `moirae up` for its changes to take effect: stream c is new, "
        "relation hosts is declared otherwise, stream b is gone"
    )
