"""Many conversations, by several processes."""
