"""What people are shown of the modes: a label and a description each."""

from .catalogue import Texts

_text = Texts("modes")


def mode_label(name: str, language: str) -> str:
    """What a mode is called; a mode of one's own by its name."""
    return _text(name, language) if name in _text else name


def mode_description(name: str, language: str) -> str:
    """What a mode does."""
    described = f"{name}_description"
    return _text(described if described in _text else "own_description", language)
