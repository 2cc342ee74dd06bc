"""Encryption of backup files, and the file of the key."""

import io
from pathlib import Path

import pytest

from moirae.backup.encryption import AgeCipher, create_key_file, make_cipher, read_key_file
from moirae.errors import BackupDamaged, UsageError

CONTENT = bytes(range(256)) * 1000


def _encrypt(cipher: AgeCipher) -> bytes:
    target = io.BytesIO()
    cipher.encrypt(io.BytesIO(CONTENT), target)
    return target.getvalue()


def _decrypt(cipher: AgeCipher, content: bytes) -> bytes:
    target = io.BytesIO()
    cipher.decrypt(io.BytesIO(content), target)
    return target.getvalue()


@pytest.fixture
def cipher(tmp_path: Path) -> AgeCipher:
    recipient = create_key_file(tmp_path / "key")
    cipher = AgeCipher(read_key_file(tmp_path / "key"))
    assert cipher.recipient == recipient
    return cipher


def test_content_is_read_with_the_key(cipher: AgeCipher) -> None:
    assert CONTENT[:100] not in _encrypt(cipher)
    assert _decrypt(cipher, _encrypt(cipher)) == CONTENT


def test_changed_and_truncated_content_is_refused(cipher: AgeCipher) -> None:
    encrypted = _encrypt(cipher)
    flipped = bytearray(encrypted)
    flipped[5000] ^= 1
    # Also at the border of a block, where a format without a last block would end.
    for damaged in (bytes(flipped), encrypted[:-1], encrypted[: len(encrypted) - 70_000]):
        with pytest.raises(BackupDamaged, match="changed or truncated"):
            _decrypt(cipher, damaged)


def test_other_key_is_refused(cipher: AgeCipher, tmp_path: Path) -> None:
    create_key_file(tmp_path / "other")
    with pytest.raises(BackupDamaged, match="cannot be decrypted by this key"):
        _decrypt(AgeCipher(read_key_file(tmp_path / "other")), _encrypt(cipher))


def test_key_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="never replaced"):
        create_key_file(path)
    with pytest.raises(UsageError, match="cannot write"):
        create_key_file(tmp_path / "absent" / "key")


def test_invalid_keys_are_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not an age key") as raised:
        make_cipher("AGE-SECRET-KEY-1WRONG")
    assert "WRONG" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot read"):
        read_key_file(tmp_path / "absent")
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(UsageError, match="must hold one key"):
        read_key_file(tmp_path / "empty")


def test_without_a_key_files_are_stored_as_they_are() -> None:
    cipher = make_cipher(None)
    target = io.BytesIO()
    cipher.encrypt(io.BytesIO(CONTENT), target)
    assert (cipher.recipient, target.getvalue()) == (None, CONTENT)
