"""Memory files of the controller–executor graph."""
