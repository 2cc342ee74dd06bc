"""Python imports this when it starts, in child processes of a run with `--fast`."""

import refused_services

refused_services.install()
