"""Passages of text files: Markdown as passages, and their full-text index."""
