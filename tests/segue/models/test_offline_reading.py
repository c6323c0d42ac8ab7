"""What is read out of a text."""

import pytest

from segue.models.offline_reading import arithmetic, known_values, numbers, occurrences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12的5次方是多少？", 12**5),
        ("5 plus 3", 8),
        ("what is 2 to the power of 10?", 1024),
        ("(3+5)×2 等于几", 16),
        ("十二乘以三加五", 41),
        ("两百除以4", 50),
        ("15% of 200", 30),
        ("200的15%", 30),
        ("1,234 + 5", 1239),
        ("3²+4²", 25),
        ("9的平方根", 3),
        ("square root of 16", 4),
        ("subtract 3 from 10", 7),
        ("three times four", 12),
        ("2^3 = ?", 8),
        ("200 * 15%", 30),
    ],
)
def test_arithmetic_is_taken_out_of_a_sentence(text: str, expected: float) -> None:
    expression = arithmetic(text)
    assert expression is not None
    assert eval(expression, {"__builtins__": {}}) == expected


@pytest.mark.parametrize("text", ["hello 3", "on 2024-05-01", "no sums here", "C++", "call 5", "(((((" * 50])
def test_other_texts_hold_no_arithmetic(text: str) -> None:
    assert arithmetic(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3日", [3]),
        ("a 3-day stay", [3]),
        ("三天", [3]),
        ("十五", [15]),
        ("二十三", [23]),
        ("两万", [20_000]),
        ("1.5万", [15_000]),
        ("1,200.5 kg", [1200.5]),
        ("温度-5度", [-5]),
        ("twelve of them", [12]),
        ("seven", [7]),
        ("300到500", [300, 500]),
        ("从300-500", [300, 500]),
        ("推荐一些", []),
        ("which one", []),
        ("第三次", []),
        ("M-12", []),
        ("十分好", []),
    ],
)
def test_numbers_are_read_in_three_spellings(text: str, expected: list[float]) -> None:
    assert [number.value for number in numbers(text)] == expected


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [
        ("Explain it", "plan", False),
        ("my loans", "loan", True),
        ("a branch", "branches", True),
        ("two libraries", "library", True),
        ("3days", "day", True),
        ("don't renew it", "renew", False),
        ("no more than one renewal", "renewal", True),
        ("don't forget the fee", "fee", True),
        ("特别推荐", "推荐", True),
        ("不要罚款", "罚款", False),
        ("别忘了罚款", "罚款", True),
        ("late-fee", "late fee", True),
    ],
)
def test_a_word_is_found_whole_and_not_where_it_is_declined(text: str, word: str, there: bool) -> None:
    assert bool(occurrences(text, word)) is there


def test_of_overlapping_values_the_longer_counts() -> None:
    assert [hit.value for hit in known_values("old town map, map", ["map", "town map"])] == ["town map", "map"]
