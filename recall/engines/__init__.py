"""Who reads a piece of history: Spark, which can all, or this process itself, for what is shown to be the same."""
