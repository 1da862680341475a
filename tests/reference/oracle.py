from .rule import Rule


class Oracle(Rule):
    def weights(self, losses, rows):
        return [float(self.clean[row]) for row in rows]
