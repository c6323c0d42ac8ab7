"""The documentation site's generated parts: commands, events, fields and routes, read from the code."""
