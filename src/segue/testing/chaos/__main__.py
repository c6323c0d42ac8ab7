"""The process that a hunt's children are forked from: `python -m segue.testing.chaos`."""

from .child import main

if __name__ == "__main__":
    main()
