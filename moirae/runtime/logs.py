"""Log lines: to standard error, one an event, each with a stable `action` and ids."""

import sys

import structlog


def configure_logging() -> None:
    """Plain lines for people on a terminal, JSON for machines elsewhere. Control characters are escaped in both."""
    shown = sys.stderr.isatty()
    render = structlog.dev.ConsoleRenderer() if shown else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
