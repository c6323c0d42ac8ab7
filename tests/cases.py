"""Small cases of one fact as one test: a test of its own takes longer than most of them."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., Any]
Failures = list[BaseException]


def cases(names: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one test, whose fixtures all cases share. Each case that fails is named."""
    keys = [name.strip() for name in names.split(",")]
    listed: Sequence[Mapping[str, Any]] = [
        dict(zip(keys, [case] if len(keys) == 1 else case, strict=True)) for case in values
    ]
    assert listed, f"there are no cases of {names}"

    def decorated(test: Test) -> Test:
        @wraps(test)
        def every(**fixtures: Any) -> None:
            failures: Failures = []
            for case in listed:
                with _noted(case, failures):
                    test(**fixtures, **case)
            _check(failures)

        @wraps(test)
        async def every_awaited(**fixtures: Any) -> None:
            failures: Failures = []
            for case in listed:
                with _noted(case, failures):
                    await test(**fixtures, **case)
            _check(failures)

        made: Any = every_awaited if inspect.iscoroutinefunction(test) else every
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        made.__signature__ = signature.replace(parameters=fixtures)
        return made

    return decorated


@contextmanager
def _noted(case: Mapping[str, Any], failures: Failures) -> Iterator[None]:
    """Keep a failure with its case, and go on."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever fails a test
        error.add_note(f"in the case {', '.join(f'{name}={value!r}' for name, value in case.items())}")
        failures.append(error)


def _check(failures: Failures) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup("cases that fail", failures)
