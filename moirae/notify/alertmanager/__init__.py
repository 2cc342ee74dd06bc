"""Configurations of Alertmanager become keys of the workspace file. No I/O."""
