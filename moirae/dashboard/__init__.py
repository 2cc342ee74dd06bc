"""The dashboard: its sources in `web`, and what is built from them in `static`."""
