"""The past of rules: what a rule would have found before it was there, chunk by chunk."""
