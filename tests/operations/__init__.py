"""A month of an agent that nobody watches: schedules, limits, approvals, notifications, and two kills a day."""
