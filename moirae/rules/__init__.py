"""Rules: the file that declares them (`model`, `parse`), what they become (`ruleset`), and their checks."""
