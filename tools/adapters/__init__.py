"""Adapters that turn functions, LangChain tools and MCP tools into Segue's."""
