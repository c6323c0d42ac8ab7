"""Tools that an agent can call: the registry, and one module per set."""
