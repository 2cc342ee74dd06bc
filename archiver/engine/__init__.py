"""Spark for this installation: what it needs is fetched once, at set-up; each start uses local files only."""

import sys
from pathlib import Path

# Where set-up puts what the wheels do not hold. It belongs to the virtual environment and goes with it.
PLACE = Path(sys.prefix) / "share" / "moirae"
JARS = PLACE / "jars"
CLASSES = PLACE / "spark.jsa"
