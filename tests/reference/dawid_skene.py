"""Dawid and Skene (1979), slowly: the formulas of the paper in loops over annotators, rows and classes."""

from __future__ import annotations

import math


def dawid_skene(
    votes: list[tuple[int, int, int]], items: int, annotators: int, classes: int, prior: float, rounds: int
) -> tuple[list[list[float]], list[list[list[float]]], list[float]]:
    """Posteriors of the rows, matrices of the annotators [true][given], shares of the classes.

    Args:
        votes: (row, annotator, label).
        items: how many rows.
        annotators: how many.
        classes: how many.
        prior: labels' worth by which a line of a matrix is drawn towards that of all annotators.
        rounds: of EM.
    """
    posterior = []
    for item in range(items):
        mine = [label for row, _, label in votes if row == item]
        posterior.append([mine.count(k) / len(mine) if mine else 1 / classes for k in range(classes)])

    def maximise() -> tuple[list[list[list[float]]], list[float]]:
        counts = [[[0.0] * classes for _ in range(classes)] for _ in range(annotators)]
        for item, who, label in votes:
            for k in range(classes):
                counts[who][k][label] += posterior[item][k]
        matrices = []
        for who in range(annotators):
            matrix = []
            for k in range(classes):
                total = sum(sum(counts[other][k]) for other in range(annotators))
                together = [
                    sum(counts[other][k][label] for other in range(annotators)) / total for label in range(classes)
                ]
                line = [counts[who][k][label] + prior * together[label] for label in range(classes)]
                matrix.append([value / sum(line) for value in line])
            matrices.append(matrix)
        return matrices, [sum(row[k] for row in posterior) / items for k in range(classes)]

    for _ in range(rounds):
        matrices, shares = maximise()
        found = []
        for item in range(items):
            likely = []
            for k in range(classes):
                given = [matrices[who][k][label] for row, who, label in votes if row == item]
                likely.append(shares[k] * math.prod(given))
            found.append([value / sum(likely) for value in likely])
        posterior = found
    matrices, shares = maximise()
    return posterior, matrices, shares
