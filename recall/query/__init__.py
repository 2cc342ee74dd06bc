"""Queries over an archive that is read piece by piece: their shape, their tables, events put in, taken apart. Pure."""
