"""The content of messages, and what history says of their alerts."""
