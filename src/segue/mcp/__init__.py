"""Agents as the tools of an MCP server."""
