"""The nodes of the controller mode's graph."""
