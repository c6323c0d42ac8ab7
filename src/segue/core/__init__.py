"""The vocabulary: ids, records, events, plan, decision, agents, errors, and the ports of models and tools."""
