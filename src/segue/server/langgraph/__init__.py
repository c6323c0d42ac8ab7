"""LangGraph's server API over the graphs of a `langgraph.json` and Segue's own agents."""
