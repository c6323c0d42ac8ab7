"""Execution of one tool call: arguments, timeout, failures and results."""
