"""Live events: changes of the workspace for any number of clients."""
