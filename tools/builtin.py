"""The tool sets that come with Segue, by the names that agents ask for."""

from segue.tools.calculator import CALCULATOR
from segue.tools.clock import CLOCK
from segue.tools.registry import ToolSets
from segue.tools.travel import TRAVEL

BUILTIN = ToolSets({"travel": TRAVEL, "calculator": CALCULATOR, "clock": CLOCK})
