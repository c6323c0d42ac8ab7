"""The size of a prompt, and what it shares with the one before."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from segue.core.models import ModelRequest, PromptSize, SentPrompts, common_prefix

PROMPTS = st.lists(st.text("ab\n", max_size=5), max_size=4)


@given(PROMPTS, PROMPTS)
def test_a_prompt_shares_what_its_text_shares(first: list[str], second: list[str]) -> None:
    prompts = SentPrompts()
    sizes = [prompts.add(ModelRequest("decide", list(map(HumanMessage, texts)))) for texts in (first, second)]
    before, text = ("\n".join(f"human: {text}" for text in texts) for texts in (first, second))
    assert sizes == [PromptSize(len(before), 0), PromptSize(len(text), common_prefix(before, text))]
