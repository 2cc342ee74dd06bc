"""A process that learns again and again, to be killed: `python -m tests.faults.learning WORKSPACE`."""

import sys
from contextlib import closing
from pathlib import Path

from moirae.config.settings import load_settings
from moirae.errors import MoiraeError
from moirae.feedback.calibration_task import build_models
from moirae.runtime import database
from tests.parent import end_with_parent


def main(workspace: Path) -> None:
    """As `CalibrationTask`, without pauses."""
    settings = load_settings(workspace, {})
    with closing(database.connect_database(settings, "learner")) as connection:
        while True:
            try:
                build_models(connection, Path(settings.archive))
            except MoiraeError as error:
                print(error, flush=True)


if __name__ == "__main__":
    end_with_parent()
    main(Path(sys.argv[1]))
