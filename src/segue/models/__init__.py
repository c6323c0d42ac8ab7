"""Models: what an agent's model name stands for."""
