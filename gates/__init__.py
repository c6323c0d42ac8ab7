"""The rules that no linter holds, and three measures that may not grow; `make check` runs them."""
