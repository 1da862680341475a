"""The audit: how wrong are the labels, which rows, and what should they be."""
