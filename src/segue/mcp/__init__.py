"""Agents, their prompts and sessions as an MCP server."""
