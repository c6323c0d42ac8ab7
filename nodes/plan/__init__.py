"""The nodes of the plan graph."""
