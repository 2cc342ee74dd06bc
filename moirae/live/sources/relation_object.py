"""Relations read from an object of S3-compatible storage."""

from archiver.errors import SourceDamaged, SourceUnreachable
from archiver.formats import Format
from archiver.ingest import read_content
from archiver.storage import ObjectPath
from moirae.config import Relation, RelationFile
from moirae.errors import MoiraeError
from moirae.live.sources.relation_poll import PollingRelationReader
from moirae.live.sources.relation_rows import RelationContent, parse_rows

_POLL_INTERVAL = 2.0  # seconds: one request


class ObjectRelationReader(PollingRelationReader):
    """Reads an object again when its ETag differs. An object is complete when it appears."""

    def __init__(self, name: str, relation: Relation, source: RelationFile) -> None:
        super().__init__(name, f"object {source.file}", _POLL_INTERVAL)
        self._relation = relation
        self._format = Format(source.format)
        self._path = ObjectPath(source.file)
        self._invalid_version = ""
        self._problems = ""

    def fetch(self, fingerprint: str) -> RelationContent | None:
        try:
            version = self._path.version()
            if version == fingerprint:
                return None
            if version == self._invalid_version:
                raise MoiraeError(self._problems)
            content = read_content(self._path)
            if self._path.version() != version:
                raise MoiraeError("the object was replaced while it was read")
        except FileNotFoundError:
            raise MoiraeError("the object does not exist") from None
        except (OSError, SourceDamaged, SourceUnreachable) as error:
            raise MoiraeError(str(error)) from error
        try:
            rows = parse_rows(self._name, self._relation, self._format, str(self._path), content)
        except MoiraeError as error:
            self._invalid_version = version
            self._problems = str(error)
            raise
        return RelationContent(rows, version)
