"""The paper's theory, computed: what each method keeps of a mixture of clean and noisy losses, and what follows."""

from .beyond import best_threshold as best_threshold
from .beyond import boundary as boundary
from .beyond import clean_ratio as clean_ratio
from .beyond import clean_ratio_bias as clean_ratio_bias
from .beyond import corrected_noise_ratios as corrected_noise_ratios
from .beyond import least_noisy_share as least_noisy_share
from .beyond import noise_ratio_from_share as noise_ratio_from_share
from .beyond import published_ratio as published_ratio
from .beyond import surfaces as surfaces
from .beyond import too_many_noisy as too_many_noisy
from .fit import fit_run as fit_run
from .fit import predict as predict
from .mixture import Kept as Kept
from .mixture import Mixture as Mixture
