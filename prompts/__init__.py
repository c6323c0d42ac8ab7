"""Prompts as Markdown with named slots."""
