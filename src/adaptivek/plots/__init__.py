"""Look inside training and into an audit: figures for notebooks and papers, drawn by matplotlib.

Those of training take a `History` of your own loop or the folder of a run that `adaptivek train` wrote; those of an
audit take its result. Each draws into ``ax`` where one is given, and gives the axes or the figure back.
"""

from .audited import suspicious as suspicious
from .audited import transition_matrix as transition_matrix
from .trained import losses as losses
from .trained import noise_ratio as noise_ratio
from .trained import overview as overview
from .trained import threshold as threshold
