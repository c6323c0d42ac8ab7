"""Environment variables that hold numbers, and packages of extras."""

from collections.abc import Mapping
from importlib.util import find_spec

from .errors import ConfigurationError, MissingExtra


def whole_number(environ: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    """The number in an environment variable; the default where it is empty or not set.

    Raises:
        ConfigurationError: it is not a whole number of at least `least`.
    """
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= 10**9):
        raise ConfigurationError(
            "{name} must be a whole number of at least {least}, not '{text}'.", name=name, least=least, text=text[:40]
        )
    return int(text)


def need_extra(what: str, extra: str, *packages: str) -> None:
    """Check that the packages of an extra are installed.

    Raises:
        MissingExtra: naming the extra that `what` needs.
    """
    try:
        installed = all(map(find_spec, packages))
    except ModuleNotFoundError:  # not even the package that one is part of
        installed = False
    if not installed:
        raise MissingExtra(what, extra)
