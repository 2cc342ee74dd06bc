"""Changes of the workspace file while the live process runs."""

import os
from pathlib import Path

from structlog.testing import capture_logs

from moirae.live.declaration_watch import DeclarationWatch
from tests.unit.moirae.config.workspace_files import STREAM, load


def test_a_stream_that_is_new_is_told_once(tmp_path: Path) -> None:
    settings = load(tmp_path, STREAM)
    applied: list[float] = []
    watch = DeclarationWatch(settings, lambda taken: applied.append(taken.incidents.threshold))
    incidents = f"{STREAM}\nincidents: {{threshold: 0.7}}\n"
    texts = [STREAM, STREAM.replace("  cpu:", "  ping:", 1), "streams: [", incidents]
    with capture_logs() as entries:
        for number, text in enumerate(texts):
            settings.file.write_text(text)
            os.utime(settings.file, (number, number))
            watch.look()
            watch.look()
    (entry,) = entries
    assert entry["action"] == "declarations_changed"
    assert "stream ping is new" in entry["remedy"]
    assert applied == [0.4, 0.4, 0.7], "each valid file once"
