"""Models behind OpenAI-compatible endpoints."""
