"""Server-sent events: the stream and its frames."""
