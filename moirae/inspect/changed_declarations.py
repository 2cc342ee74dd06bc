"""Whether the live process reads what the workspace file declares now."""

import sql
from moirae.config import (
    Settings,
    describe_changed_declarations,
    digest_declarations,
    load_settings_from_environment,
)
from moirae.errors import MoiraeError
from sql.processes import ProcessGateway


def find_changed_declarations(settings: Settings, connection: sql.Connection) -> str | None:
    """What the live process that runs does not know of the workspace file; None: nothing."""
    live = ProcessGateway(connection).get_live_declarations()
    if live is None:
        return None
    name = settings.file.name
    try:
        if settings.file.stat().st_mtime < live.started_at.timestamp():
            return None
        present = load_settings_from_environment(settings.file)
    except (OSError, MoiraeError) as error:
        return f"{name} cannot be read: the processes go on with what they have read: {error}"
    described = describe_changed_declarations(live.declarations, digest_declarations(present))
    return None if described is None else f"{name}: {described}"
