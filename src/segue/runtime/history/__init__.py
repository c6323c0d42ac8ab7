"""The history of a session: its timeline, the states that it shows, and the retention of snapshots."""
