"""The graphs: each file only wires nodes and edges."""
