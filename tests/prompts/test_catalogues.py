"""The catalogues of bilingual sentences: complete, and with the same fields in both languages."""

from string import Formatter

import pytest

from segue.prompts.findings import FINDINGS
from segue.prompts.phrases import PHRASES
from segue.prompts.problems import PROBLEMS
from segue.prompts.rehearsal import REHEARSED
from segue.prompts.report import REPORT
from segue.prompts.terminal import SENTENCES

CATALOGUES = {
    "phrases": PHRASES,
    "problems": PROBLEMS,
    "terminal": SENTENCES,
    "findings": FINDINGS,
    "rehearsal": REHEARSED,
    "report": REPORT,
}


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_every_sentence_has_the_same_fields_in_both_languages(catalogue: str) -> None:
    for name, (chinese, english) in CATALOGUES[catalogue].items():
        assert fields(chinese) == fields(english), name
        assert any("\u4e00" <= char <= "\u9fff" for char in chinese) or name in ("why", "judge_says"), name
        assert not any("\u4e00" <= char <= "\u9fff" for char in english), name
