"""The requests of each protocol: what they ask, and the task that they begin, continue or join."""
