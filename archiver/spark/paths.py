"""Where set-up puts what Spark needs: inside the virtual environment."""

import sys
from pathlib import Path

# Where set-up puts what the wheels do not hold. It belongs to the virtual environment and goes with it.
INSTALL_FOLDER = Path(sys.prefix) / "share" / "moirae"
JARS = INSTALL_FOLDER / "jars"
CLASS_ARCHIVE = INSTALL_FOLDER / "spark.jsa"
