import math


def adaptive_k_thresholds(batches, threshold="paper", beta1=0.9, beta2=0.999, eps=1e-8):
    m = v = 0.0
    cuts = []
    for t, batch in enumerate(batches, start=1):
        mean = sum(float(x) for x in batch) / len(batch)
        m = beta1 * m + (1 - beta1) * mean
        v = beta2 * v + (1 - beta2) * mean**2
        cuts.append(m / (math.sqrt(v) + eps) if threshold == "paper" else m / (1 - beta1**t))
    return cuts


def adaptive_k(batches, **options):
    cuts = adaptive_k_thresholds(batches, **options)
    return [[float(x) <= cut for x in batch] for batch, cut in zip(batches, cuts, strict=True)]
