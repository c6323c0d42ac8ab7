"""The configuration in docs/rehearsal.md is one."""

import re
import tomllib
from pathlib import Path

from segue.core.conversation import config_of

PAGE = (Path(__file__).parents[2] / "docs" / "rehearsal.md").read_text(encoding="utf-8")


def test_the_configuration_is_read() -> None:
    (block, *_) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert config_of(tomllib.loads(block)).bot_mode == "segue:react"
