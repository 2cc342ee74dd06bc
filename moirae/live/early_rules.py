"""The applied rules are compiled while Spark starts, which leaves this process idle."""

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

import structlog

from archiver.ingest import ArchiveWriter
from archiver.threads import start_thread
from moirae.config import Settings
from moirae.deployments import RuleRegistry
from moirae.evaluation import PreparedRules
from moirae.live.relations import Relations
from moirae.runtime import connect_database

_LOG = structlog.get_logger()


def start_preparing(
    settings: Settings,
    prepared: PreparedRules,
    archive: ArchiveWriter,
    relations: Relations,
) -> Future[None]:
    """Prepare the applied rules in a thread. `prepared` is its own until the result is there."""
    time_columns = {name: table.schema.time for name, table in archive.tables.items()}
    names = frozenset(relations.columns)
    prepare = partial(_prepare_applied, settings, prepared, time_columns, names)
    return start_thread(prepare, "prepare rules")


def _prepare_applied(
    settings: Settings,
    prepared: PreparedRules,
    time_columns: Mapping[str, str],
    relations: frozenset[str],
) -> None:
    """A rule that cannot be prepared is reported when it is loaded, as are all others then."""
    try:
        with connect_database(settings, "live") as connection:
            definitions = RuleRegistry(connection).desired_rules()
        for definition in definitions:
            if definition.spec.enabled:
                prepared.prepare(definition, time_columns, relations)
    except Exception as error:
        _LOG.debug("rules not prepared", action="rules_not_prepared", error=str(error))
