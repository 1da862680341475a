def oracle(batches, clean):
    """``clean`` holds, for each batch, the truth about its samples."""
    return [[bool(c) for c in truth] for _, truth in zip(batches, clean, strict=True)]
