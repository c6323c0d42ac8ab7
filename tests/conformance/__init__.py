"""MCP's own conformance suite, against Segue as a server and as a client."""
