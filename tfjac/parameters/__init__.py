"""Parameters with names: bounds, ties, priors, models, and what a fit of them found."""

from tfjac.parameters.bootstrap import Bootstrap
from tfjac.parameters.many import NamedFits, fit_many
from tfjac.parameters.named_fit import NamedFit
from tfjac.parameters.parameter import Parameter
from tfjac.parameters.parameters import Parameters
from tfjac.parameters.profiles import ConfidenceIntervals
from tfjac.parameters.starts import MultiStart
from tfjac.parameters.together import fit_together

__all__ = [
    "Bootstrap",
    "ConfidenceIntervals",
    "MultiStart",
    "NamedFit",
    "NamedFits",
    "Parameter",
    "Parameters",
    "fit_many",
    "fit_together",
]
