"""How long the three errors take over a 200 x 200 grid for four noise ratios, on one core.

python benchmarks/theory_surface.py
"""

from __future__ import annotations

import sys
import time

import numpy as np

from adaptivek.theory.beyond import surfaces


def main() -> None:
    mu2, sigma2, tau = np.linspace(0.05, 10, 200), np.linspace(0.025, 5, 200), np.array([0.1, 0.2, 0.3, 0.4])
    seconds = []
    for _ in range(5):
        started = time.process_time()
        surfaces(0, 1, mu2, sigma2, tau, n=10, k=6)
        seconds.append(time.process_time() - started)
    points = len(mu2) * len(sigma2) * len(tau)
    print(f"{points} points, n = 10, k = 6: {min(seconds):.2f} to {max(seconds):.2f} s of processor time in 5 runs")


if __name__ == "__main__":
    sys.exit(main())
