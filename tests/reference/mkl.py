from .rule import Rule


class MKL(Rule):
    def __init__(self, rows, classes, clean=None, keep=0.6):
        super().__init__(rows, classes)
        self.keep = keep

    def weights(self, losses, rows):
        number = max(1, round(self.keep * len(losses)))
        smallest = sorted(range(len(losses)), key=lambda i: losses[i])[:number]
        return [float(i in smallest) for i in range(len(losses))]
