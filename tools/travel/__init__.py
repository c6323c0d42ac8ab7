"""The travel tools and their facts."""
