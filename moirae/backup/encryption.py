"""Encryption of backup files in the age format, by `pyrage`.

A file is encrypted and authenticated block by block (ChaCha20-Poly1305), so that it streams, and a
changed, reordered or truncated one is refused. The program `age` reads the files, too.
"""

from pathlib import Path
from typing import BinaryIO, Protocol, cast

import pyrage

from moirae.backup.hashed_files import HashedFile, copy_hashed
from moirae.backup.manifest import FileEntry
from moirae.errors import BackupDamaged, UsageError


class Cipher(Protocol):
    """How the files of a backup folder are stored."""

    @property
    def recipient(self) -> str | None:
        """The public key; None: files are stored as they are."""

    def may_hold(self, stored: int, content: int) -> bool:
        """Whether a stored file of so many bytes may have content of so many."""

    def encrypt(self, source: BinaryIO, target: BinaryIO) -> FileEntry:
        """Copy a file into a backup; return the entry of its content."""

    def decrypt(self, source: BinaryIO, target: BinaryIO) -> FileEntry:
        """Copy a file out of a backup; return the entry of its content. Raises `BackupDamaged`."""


class PlainCipher:
    """Files are stored as they are."""

    recipient = None

    def may_hold(self, stored: int, content: int) -> bool:
        """Both are the same."""
        return stored == content

    def encrypt(self, source: BinaryIO, target: BinaryIO) -> FileEntry:
        """Copy."""
        return copy_hashed(source, target)

    def decrypt(self, source: BinaryIO, target: BinaryIO) -> FileEntry:
        """Copy."""
        return copy_hashed(source, target)


class AgeCipher:
    """Files are encrypted for the holder of a key."""

    def __init__(self, key: str) -> None:
        """`key`: `AGE-SECRET-KEY-1…`. Raises `UsageError`."""
        try:
            self._identity = pyrage.x25519.Identity.from_str(key)
        except pyrage.IdentityError:
            # The value is not shown.
            raise UsageError(
                "the backup key is not an age key (AGE-SECRET-KEY-1…): make one with "
                "`moirae backup new-key FILE`"
            ) from None
        self._recipient = self._identity.to_public()

    @property
    def recipient(self) -> str:
        """The public key."""
        return str(self._recipient)

    def may_hold(self, stored: int, content: int) -> bool:
        """A header, whose length varies, comes first."""
        return stored > content

    def encrypt(self, source: BinaryIO, target: BinaryIO) -> FileEntry:
        """Encrypt for the key."""
        hashed = HashedFile(source)
        pyrage.encrypt_io(cast(BinaryIO, hashed), target, [self._recipient])
        return hashed.entry

    def decrypt(self, source: BinaryIO, target: BinaryIO) -> FileEntry:
        """Decrypt by the key. Raises `BackupDamaged`."""
        hashed = HashedFile(target)
        try:
            pyrage.decrypt_io(source, cast(BinaryIO, hashed), [self._identity])
        except pyrage.DecryptError as error:
            raise BackupDamaged(f"cannot be decrypted by this key: {error}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise BackupDamaged(f"changed or truncated: {error}") from error
        return hashed.entry


def make_cipher(key: str | None) -> Cipher:
    """The cipher of a key; None: files are stored as they are. Raises `UsageError`."""
    if key is None:
        return PlainCipher()
    return AgeCipher(key)


def read_key_file(path: Path) -> str:
    """The key in a file, as `age-keygen` writes it. Raises `UsageError`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read the backup key: {error}") from error
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(keys) != 1:
        raise UsageError(f"{path}: must hold one key, as `moirae backup new-key` writes it")
    return keys[0]


def create_key_file(path: Path) -> str:
    """Write a new key to a new file that only its owner can read; return the public key."""
    identity = pyrage.x25519.Identity.generate()
    recipient = str(identity.to_public())
    try:
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(f"# public key: {recipient}\n{identity}\n", encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{path}: exists; a key is never replaced") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot write the backup key: {error.strerror}") from error
    return recipient
