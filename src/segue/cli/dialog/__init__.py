"""The dialog with the person at the terminal."""
