"""From events to alerts: their life, and their rows."""
