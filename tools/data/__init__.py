"""The data tools: questions about the CSV, TSV and Parquet files of one folder, answered by DuckDB."""
