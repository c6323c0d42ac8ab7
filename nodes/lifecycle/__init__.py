"""The nodes of the lifecycle graph."""
