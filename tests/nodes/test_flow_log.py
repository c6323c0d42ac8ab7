"""What a round of a flow leaves in its memory file."""

from typing import Any

import pytest

from segue.nodes.control_decision import log_of

FILE = """write_file

- path: calc.py
- text:

```
def add(a, b):
    return a + b
```

→ {"path": "calc.py", "lines": 2}"""
CODE = "def add(a, b):\n    return a + b\n"
FAILED = """run_tests {} →

- exit_code: 1
- output:

````
```
E   assert -1 == 5
````"""


@pytest.mark.parametrize(
    ("branch", "arguments", "result", "logged"),
    [
        ("write_file", {"path": "calc.py", "text": CODE}, {"path": "calc.py", "lines": 2}, FILE),
        ("run_tests", {}, {"exit_code": 1, "output": "```\nE   assert -1 == 5\n"}, FAILED),
        ("double", {"number": 4}, 8, 'double {"number": 4} → 8'),
    ],
)
def test_code_and_output_are_logged_as_people_read_them(
    branch: str, arguments: dict[str, Any], result: Any, logged: str
) -> None:
    outcome = {"branch": branch, "kind": "tool", "arguments": arguments, "result": {"success": result}, "summary": "s"}
    assert log_of(outcome, "en") == logged
    assert "的结果：" in log_of(outcome, "zh")
    assert log_of({**outcome, "kind": "flow"}, "en") == "s"


def test_a_long_text_is_truncated_in_the_log() -> None:
    outcome = {"branch": "b", "kind": "tool", "arguments": {"text": "line\n" * 900}, "result": {"error": "no\n" * 900}}
    assert len(log_of(outcome, "en")) < 1_300
