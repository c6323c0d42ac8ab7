"""What the nodes of several graphs share."""
