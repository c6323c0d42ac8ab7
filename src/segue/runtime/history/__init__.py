"""The history of a session: its timeline, the way back to a snapshot, and the retention of snapshots."""
