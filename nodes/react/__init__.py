"""The nodes of the react graph."""
