"""Check the rules and the trends: `python -m gates`; `--keep` writes the trends' numbers as they are now."""

import sys

from .documentation import documentation_faults
from .style import style_faults
from .texts import text_faults
from .trends import find_grown, keep, measure

faults = [*style_faults(), *documentation_faults(), *text_faults()]
trends = measure()
if "--keep" in sys.argv:
    keep(trends)
else:
    faults += [f"{line}: simplify, or accept it with: python -m gates --keep" for line in find_grown(trends)]
print("gates:", ", ".join(f"{name} {number}" for name, number in trends.items() if not name.startswith("names of")))
if faults:
    sys.exit("\n".join(faults))
