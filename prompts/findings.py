"""Findings of `segue doctor`."""

from .catalogue import Texts

finding = Texts("doctor")
