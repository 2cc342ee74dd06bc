"""Certificates for servers on loopback."""

import shutil
import subprocess
from pathlib import Path

import pytest

_COMMAND = (
    "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=moirae -keyout key.pem -out cert.pem"
)
_SUBJECT = ("-addext", "subjectAltName=IP:127.0.0.1")


def make_certificate(folder: Path) -> None:
    """Make cert.pem and key.pem of 127.0.0.1, and keystore.pem with both."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder.chmod(0o755)
    subprocess.run(
        [openssl, *_COMMAND.split(), *_SUBJECT], cwd=folder, check=True, capture_output=True
    )
    parts = [(folder / name).read_text() for name in ("key.pem", "cert.pem")]
    (folder / "keystore.pem").write_text("".join(parts))
