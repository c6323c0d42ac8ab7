"""Cases of one test: all of them run, and those that fail are named."""

import asyncio
import inspect

import pytest

from tests.cases import cases


def test_every_case_runs_and_those_that_fail_are_named() -> None:
    ran: list[tuple[int, str]] = []

    @cases("number, word", [(1, "a"), (2, "b"), (3, "c")])
    def check(number: int, word: str, fixture: set[int]) -> None:
        ran.append((number, word))
        assert number not in fixture

    assert [*inspect.signature(check).parameters] == ["fixture"]
    check(fixture=set())
    assert ran == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(AssertionError) as one:
        check(fixture={2})
    assert one.value.__notes__ == ["in the case number=2, word='b'"]
    with pytest.raises(BaseExceptionGroup) as many:
        check(fixture={1, 3})
    assert [error.__notes__ for error in many.value.exceptions] == [
        ["in the case number=1, word='a'"],
        ["in the case number=3, word='c'"],
    ]


def test_what_is_awaited_or_raises_nothing_fails_as_well() -> None:
    @cases("number", [1, 2])
    async def check(number: int) -> None:
        await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError):
            assert 1 / (number - 1)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE") as failed:
        asyncio.run(check())
    assert failed.value.__notes__ == ["in the case number=2"]
