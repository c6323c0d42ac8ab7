"""Tests of agents: rehearsals with simulated users, cassettes, backtests and injected faults."""
