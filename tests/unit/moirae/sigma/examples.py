"""Small Sigma rules of the tests' own, and the stream that they are imported over."""

from pathlib import Path

from moirae.config import load_settings_from_environment
from moirae.config.settings import Settings

WORKSPACE = """\
streams:
  process:
    columns: {ts: timestamp, Computer: string, Image: string, CommandLine: string, User: string, EventID: int}
    time: ts
    id: [Computer, Image]
    source: {files: landing/*.jsonl}
"""
CURL_ID = "0d4f3f0e-54d6-4b8c-8f6f-1d0a3a0f1b11"
CURL = f"""\
title: Download by curl
id: {CURL_ID}
status: test
description: |
    A file is fetched.
    {{{{ not a template }}}}
references: ['https://example.org/curl', 'https://example.org/more']
author: Ada
date: 2026-01-02
tags: [attack.command-and-control, attack.t1105]
logsource: {{category: process_creation, product: windows}}
detection:
    selection:
        Image|endswith: '\\\\curl.exe'
        CommandLine|contains: [http, ftp]
    filter:
        User: SYSTEM
    condition: selection and not filter
falsepositives: [Updates]
level: high
"""
NET_ID = "7c1e6a57-1f0e-4a52-9d1c-2b8d6d3f9c22"
NET = f"""\
title: Account list
id: {NET_ID}
name: account_list
logsource: {{category: process_creation, product: windows}}
detection:
    selection: {{CommandLine|contains: net user}}
    condition: selection
level: low
"""


def make_workspace(folder: Path, text: str = WORKSPACE) -> Settings:
    """A workspace in a folder; its rule files are in `rules`."""
    file = folder / "moirae.yaml"
    file.write_text(text)
    return load_settings_from_environment(file)


def write_rules(folder: Path, **texts: str) -> Path:
    """A folder of Sigma files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yml").write_text(text)
    return folder
