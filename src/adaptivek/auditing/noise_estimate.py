"""How much of the labels is noisy: the noise floor, checked by the second network."""

from __future__ import annotations

from typing import NamedTuple

from .instance_noise import adjust_floor
from .noise_floor import NoiseRatio, noise_floor
from .predictions import Codes, Predictions

WIDE = 0.2  #: an interval of the ratio beyond which it is not reliable


class NoiseEstimate(NamedTuple):
    """Over all rows."""

    ratio: NoiseRatio
    instance_dependent: bool  #: hard rows seem to be mislabelled more often: no floor was found

    @property
    def reliable(self) -> bool:
        """Whether networks may train on posteriors under this ratio: under too low a one they learn noisy labels."""
        return not self.instance_dependent and self.ratio.high - self.ratio.low <= WIDE


def estimate_noise(held_out: Predictions, in_sample: Predictions, labels: Codes, classes: int) -> NoiseEstimate:
    """From the predictions of the network that has not seen a row, and of the one that has trained on it."""
    predicted, confidence = held_out.predicted(), held_out.confidence()
    disagrees = predicted != labels
    floor = noise_floor(confidence, ~disagrees, predicted, classes)
    found = adjust_floor(floor, confidence, held_out.uncertainty(), disagrees, predicted != in_sample.predicted())
    return NoiseEstimate(found, found != floor)
