"""Places to start from that SciPy's minimisers find without derivatives, under lmfit's names."""

import numpy as np
import scipy.optimize

from tfjac.progress import shown

_SIMPLEX = {"nelder": "Nelder-Mead", "powell": "Powell"}
_GLOBAL = {
    "differential_evolution": scipy.optimize.differential_evolution,
    "dual_annealing": scipy.optimize.dual_annealing,
}
SEARCHES = (*_SIMPLEX, *_GLOBAL)


def searched(method, refits, seed):
    """Return the values `[k]` of the least sum of squares that a search finds; losses do not count in it.

    Args:
        method: one of `SEARCHES`.
        refits: `Refits`.
        seed: of a search that draws.

    Raises:
        ValueError: where a search needs bounds, and there are none.
    """
    layout = refits.layout
    free = np.flatnonzero(~layout.fixed)
    values, best = np.array(layout.start), np.array(layout.start)
    least = np.inf

    def cost(some):
        nonlocal least
        values[free] = np.clip(some, layout.lower[free], layout.upper[free])
        found = refits.cost(values)
        if found < least:
            least, best[:] = found, values
        return found if np.isfinite(found) else np.finfo(float).max

    bounds = scipy.optimize.Bounds(layout.lower[free], layout.upper[free])
    with shown(f"method={method!r}"):
        if method in _SIMPLEX:
            options = {"maxfev": 400 * free.size}
            scipy.optimize.minimize(cost, values[free], method=_SIMPLEX[method], bounds=bounds, options=options)
        else:
            _refuse_without_bounds(method, layout, free)
            _GLOBAL[method](cost, bounds, x0=values[free].copy(), seed=np.random.default_rng(seed))
    return best


def _refuse_without_bounds(method, layout, free):
    for k in free:
        if not (np.isfinite(layout.lower[k]) and np.isfinite(layout.upper[k])):
            raise ValueError(
                f"method={method!r} searches within bounds: give the parameter min and max. "
                f"Received: {layout.independent[k]!r} with min={layout.lower[k]:.6g}, max={layout.upper[k]:.6g}"
            )
