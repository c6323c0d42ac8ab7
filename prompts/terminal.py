"""Sentences of the command line."""

from .catalogue import Texts

sentence = Texts("terminal")
