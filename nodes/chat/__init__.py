"""The nodes of the chat graph."""
