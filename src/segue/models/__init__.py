"""The models that an agent can name."""
