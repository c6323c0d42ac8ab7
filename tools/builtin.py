"""The tool sets that come with Segue, by the names that agents ask for."""

from typing import TYPE_CHECKING

from segue.tools.calculator import CALCULATOR
from segue.tools.clock import CLOCK
from segue.tools.registry import ToolSets
from segue.tools.travel.tools import TRAVEL

if TYPE_CHECKING:
    from segue.tools.bound_tool import BoundTool


def _data() -> "tuple[BoundTool, ...]":
    """The tools over the data folder of the environment, loaded where somebody wants them: they need an extra."""
    from segue.tools.data.toolset import data_tools

    return data_tools()


BUILTIN = ToolSets({"travel": TRAVEL, "calculator": CALCULATOR, "clock": CLOCK, "data": _data})
