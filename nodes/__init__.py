"""The nodes of the graphs, one module per graph, and what they share."""
