"""Which past events had a context like this one. Arrays in, scores out (Moirae, CIDR 2007, §3.5)."""
