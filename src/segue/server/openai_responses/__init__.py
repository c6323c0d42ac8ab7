"""OpenAI's responses API: requests, replies, routes."""
