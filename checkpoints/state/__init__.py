"""The state of sessions: LangGraph's checkpoints, whichever database stores them."""
