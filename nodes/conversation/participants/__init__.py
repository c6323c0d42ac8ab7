"""Built-in participants of conversations."""
