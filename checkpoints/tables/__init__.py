"""Segue's own tables: transactions in SQL that every backend understands."""
