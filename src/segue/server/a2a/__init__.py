"""The agents as A2A servers: requests, replies, routes."""
