"""The nodes of the conversation graph."""
