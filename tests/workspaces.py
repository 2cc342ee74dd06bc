"""Workspaces that tests of several kinds share."""


def one_stream(rows: int, keep: str) -> str:
    """A stream in chunks of so many rows, of which old ones expire after a time."""
    return f"""
home: .moirae
streams:
  s:
    columns: {{ts: timestamp, n: bigint, host: string}}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {{files: landing/*.jsonl}}
chunks: {{rows: {rows}, age: 1d, recent: 2, keep: {keep}}}
rules: []
"""
