"""The life of a chunk: how streams become an archive that can be asked piece by piece."""
