"""Tasks as each protocol shows them: encoders of a reply and its result."""
