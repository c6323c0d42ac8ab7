"""The nodes of the direct graph."""
