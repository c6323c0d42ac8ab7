"""Detection of damage, and the way back to the newest readable state."""
