"""Rules that no linter checks, and measures that may not grow; `make check` runs them."""
