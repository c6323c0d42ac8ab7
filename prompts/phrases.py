"""What people see while a task runs, and short texts in prompts."""

from .catalogue import Texts

phrase = Texts("task")
