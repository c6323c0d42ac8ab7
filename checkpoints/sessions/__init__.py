"""Snapshots, forks and exports of sessions."""
