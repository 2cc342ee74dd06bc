"""Who reads how much of history next, in which order, and how many at once. Pure."""
