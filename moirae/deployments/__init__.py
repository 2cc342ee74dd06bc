"""Which rules should run, and which do."""
