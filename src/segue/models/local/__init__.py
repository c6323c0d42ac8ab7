"""Language models that run in this process."""
