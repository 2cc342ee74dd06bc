"""Source files that appear complete, as producers should put them."""

from pathlib import Path


def put_file(path: Path, content: str) -> None:
    """Write a file under a hidden name, which globs do not match, then rename it."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(content)
    hidden.rename(path)
