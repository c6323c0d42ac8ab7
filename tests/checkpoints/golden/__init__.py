"""Databases that earlier versions wrote; `python -m tests.checkpoints.golden schema-N` writes that of this one."""
