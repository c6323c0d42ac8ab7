"""The texts of a rehearsal's report."""

from .catalogue import Texts

report_text = Texts("report")
