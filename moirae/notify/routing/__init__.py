"""What is decided: routes, groups, silences and inhibition, limits. Alerts and the time in, messages out. No I/O."""
