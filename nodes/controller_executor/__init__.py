"""The nodes of the controller–executor graph."""
