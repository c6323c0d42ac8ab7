"""Parts of an error's sentence that have a translation of their own."""


class Clause:
    """A template and its values, which may be clauses; its text is English."""

    def __init__(self, template: str, /, **values: object) -> None:
        self.template = template
        self.values = values

    def __str__(self) -> str:
        return self.template.format(**self.values) if self.values else self.template
