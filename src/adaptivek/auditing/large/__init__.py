"""The audit of Parquet files that together are larger than memory."""
