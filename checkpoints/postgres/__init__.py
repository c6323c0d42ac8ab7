"""PostgreSQL storage: connections, schema and the state of graphs."""
