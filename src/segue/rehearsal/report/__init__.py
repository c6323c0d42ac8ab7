"""Reports on batches: outcomes, statistics, faults, and the comparison of two."""
