"""The nodes of the graphs, one package per graph."""
