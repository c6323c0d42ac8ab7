"""Parts that the nodes of several graphs share."""
