"""Rules and contexts over rows, the same for what comes in and for what is archived."""
