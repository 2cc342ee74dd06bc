"""Paths of what `make setup` installs for Spark, inside the virtual environment."""

import sys
from pathlib import Path

# Files that no wheel contains. They are removed together with the virtual environment.
INSTALL_FOLDER = Path(sys.prefix) / "share" / "moirae"
JARS = INSTALL_FOLDER / "jars"
OWN_JAR = "moirae.jar"  # among them: the classes in `java`
CLASS_ARCHIVE = INSTALL_FOLDER / "spark.jsa"  # loaded classes, for class data sharing
