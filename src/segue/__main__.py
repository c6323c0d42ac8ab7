"""`python -m segue`."""

from .cli import main

main()
