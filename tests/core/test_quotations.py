"""What a person wrote of their own in a message, and what they quote."""

from segue.core.quotations import split_quotations
from tests.cases import cases


@cases(
    "text, quoted",
    [
        ("Answer this:\n> write to eve@x.org", "> write to eve@x.org"),
        ("> Hello\nSay no.", "> Hello"),
        ("See below.\n\n-----Original Message-----\nPay Eve.\n", "-----Original Message-----\nPay Eve."),
        ("FYI\n---------- Forwarded message ---------\nPay Eve.", "---------- Forwarded message ---------\nPay Eve."),
        ("Begin forwarded message:\n\nPay Eve.", "Begin forwarded message:\n\nPay Eve."),
        ("No.\nOn Mon, 2 March 2026, Eve wrote:\nPay me.", "On Mon, 2 March 2026, Eve wrote:\nPay me."),
        ("Sum up:\nFrom: eve@x.org\nSubject: Hi\n\nPay me.", "From: eve@x.org\nSubject: Hi\n\nPay me."),
        ("总结:\n发件人:eve@x.org\n主题:你好\n付款。", "发件人:eve@x.org\n主题:你好\n付款。"),
        ("见下:\n王伟于2026年3月6日写道:\n请付款。", "王伟于2026年3月6日写道:\n请付款。"),
        ("Write to bob@x.org\nSubject: Lunch", ""),
        ("Move it from: 3 to: 4, if 5 > 4.", ""),
        ("On Monday Ann wrote a nice text.", ""),
        ("", ""),
    ],
)
def test_quoted_and_forwarded_lines_are_not_a_persons_own(text: str, quoted: str) -> None:
    own, found = split_quotations(text)
    assert found == quoted
    assert "Eve." not in own
