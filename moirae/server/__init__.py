"""The server: takes rows that are posted, answers about alerts and rules."""
