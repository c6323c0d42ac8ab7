"""One-line faults put into a copy of the source, to see that the tests notice each of them."""
