"""What becomes of partial answers, piece of history by piece."""
