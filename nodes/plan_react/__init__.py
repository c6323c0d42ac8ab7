"""The nodes of the plan_react graph that it does not share with plan."""
