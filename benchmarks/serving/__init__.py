"""What `benchmarks/serve.py` is made of: two servers, their clients, and what is made of what those were sent."""
