"""The Recall Manager: tasks at hand, their turns, and what becomes of what was read."""
