"""AG-UI, the Agent User Interaction Protocol, over sessions and tasks."""
