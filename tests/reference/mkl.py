def mkl(batches, keep):
    chosen = []
    for batch in batches:
        k = max(1, round(keep * len(batch)))
        by_loss = sorted(range(len(batch)), key=lambda i: (batch[i], i))
        smallest = set(by_loss[:k])
        chosen.append([i in smallest for i in range(len(batch))])
    return chosen
