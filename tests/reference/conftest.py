"""Pages are also tried at a terminal."""

from tests.cli.conftest import shell as shell
