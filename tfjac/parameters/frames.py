"""Tables of pandas, where it is installed."""

import numpy as np

from tfjac.optimizers import Status


def frame_of_parameters(params):
    """Return a row for each of `Parameters`, as a fit found them."""
    columns = {
        "value": [each.value for each in params.values()],
        "stderr": [np.nan if each.stderr is None else each.stderr for each in params.values()],
        "start": [np.nan if each.init_value is None else each.init_value for each in params.values()],
        "min": [each.min for each in params.values()],
        "max": [each.max for each in params.values()],
        "vary": [each.is_free for each in params.values()],
        "expr": [each.expr for each in params.values()],
        "unit": [each.unit for each in params.values()],
    }
    index = _pandas().Index(list(params), name="parameter")
    return _pandas().DataFrame(columns, index=index)


def frame_of_fits(fits):
    """Return a row for each of `NamedFits`: values, errors beside them, and how it ended."""
    errors, columns = fits.standard_errors(), {}
    for name, values in fits.values.items():
        columns |= {name: values, f"{name}_stderr": errors[name]}
    ended = [Status(int(each)).name for each in fits.status]
    columns |= {"cost": fits.cost, "steps": fits.fit.steps, "success": fits.success, "status": ended}
    return _pandas().DataFrame(columns)


def _pandas():
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "to_dataframe makes a table of pandas: pip install pandas. Without it, values and standard_errors() "
            "of a fit are dicts by name. Received: an environment without it"
        ) from None
    return pandas
