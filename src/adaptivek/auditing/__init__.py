"""The audit: the noise ratio of a data set, which rows have a noisy label, and what it should be."""
