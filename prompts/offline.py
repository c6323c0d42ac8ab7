"""Sentences of the offline planner."""

from .catalogue import Texts

sentence = Texts("offline")
