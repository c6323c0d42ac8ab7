"""Parts of an error's sentence that have a translation of their own."""

from collections.abc import Iterable


class Clause:
    """A template and its values, which may be clauses; its text is English."""

    def __init__(self, template: str, /, **values: object) -> None:
        self.template = template
        self.values = values

    def __str__(self) -> str:
        return self.template.format(**self.values) if self.values else self.template


def together(clauses: Iterable[Clause]) -> Clause:
    """The clauses as one, separated by semicolons."""
    values = {f"part{place}": clause for place, clause in enumerate(clauses)}
    return Clause("; ".join(f"{{{name}}}" for name in values), **values)
