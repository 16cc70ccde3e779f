"""Examples of lmfit's gallery on data made by a fixed seed: what lmfit finds, for tests.

    python -m benchmarks.lmfit_gallery  # in an environment with lmfit, writes tests/data/lmfit/gallery.json

Nothing here needs TensorFlow. The file holds the data, too.
"""

import json

import numpy as np

from benchmarks.lmfit_peer import ROOT, TIGHT, described, rounded

FILE = ROOT / "tests" / "data" / "lmfit" / "gallery.json"


def complex_resonator() -> dict:
    """ "Complex Resonator Model"."""
    import lmfit

    def resonator(f, f_0, Q, Q_e_real, Q_e_imag):
        Q_e = Q_e_real + 1j * Q_e_imag
        return 1 - (Q * Q_e**-1 / (1 + 2j * Q * (f - f_0) / f_0))

    rng = np.random.default_rng(0)
    f = np.round(np.linspace(99.95, 100.05, 100), 6)
    y = resonator(f, 100.0, 10000.0, 9000.0, -9000.0) + 0.02 * (rng.normal(size=100) + 1j * rng.normal(size=100))
    y = np.round(y, 5)
    start = {"f_0": 100.0, "Q": 8000.0, "Q_e_real": 8000.0, "Q_e_imag": -8000.0}
    result = lmfit.Model(resonator).fit(y, f=f, **start, fit_kws=TIGHT)
    return described(result, x=f, y_real=y.real, y_imag=y.imag)


def two_dimensional_peak() -> dict:
    """ "Fit Two Dimensional Peaks"."""
    from lmfit.models import Gaussian2dModel

    rng = np.random.default_rng(1)
    x, y = np.round(rng.uniform(-10, 10, [2, 300]), 4)
    z = 30 * np.exp(-((x - 3) ** 2) / (2 * 1.5**2) - (y + 2) ** 2 / (2 * 2.5**2)) / (2 * np.pi * 1.5 * 2.5)
    z = np.round(z + 0.02 * rng.normal(size=300), 6)
    model = Gaussian2dModel()
    params = model.make_params(amplitude=20, centerx=2, centery=-1, sigmax=2, sigmay=2)
    return described(model.fit(z, x=x, y=y, params=params, weights=1 / 0.02, fit_kws=TIGHT), x=x, y=y, z=z)


def with_derivatives() -> dict:
    """ "Fit Specifying a Function to Compute the Jacobian"."""
    import lmfit

    x = np.linspace(0, 4, 50)
    y = 2.5 * np.exp(-1.3 * x) + 0.5 + np.random.default_rng(2021).normal(size=50, scale=0.15)
    x, y = rounded(x, y)

    def residual(p, x, y):
        return p["a"].value * np.exp(-p["b"].value * x) + p["c"].value - y

    def slopes(p, x, y):
        decay = np.exp(-p["b"].value * x)
        return np.array([decay, -p["a"].value * x * decay, np.ones_like(x)])

    start = lmfit.create_params(a=10, b=10, c=10)
    result = lmfit.minimize(residual, start, args=(x, y), Dfun=slopes, col_deriv=1, **TIGHT)
    return described(result, x=x, y=y)


def peaks_on_a_line(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of a Gaussian and a Lorentzian on a line."""
    from lmfit.lineshapes import gaussian, lorentzian

    x = np.linspace(0.0, 20.0, 301)
    y = gaussian(x, 21, 8.1, 1.2) + lorentzian(x, 10, 9.6, 2.4) + 0.5 + 0.05 * x
    return rounded(x, y + np.random.default_rng(seed).normal(scale=0.23, size=x.size))


def inequality_constraint() -> dict:
    """ "Fit Using Inequality Constraint": one peak to the right of the other, by 5 at most."""
    from lmfit import Parameters, minimize
    from lmfit.lineshapes import gaussian, lorentzian

    x, y = peaks_on_a_line(0)
    params = Parameters()
    params.add("amp_g", value=10)
    params.add("amp_l", value=10)
    params.add("cen_g", value=8)
    params.add("peak_split", value=1.0, min=0, max=5, vary=True)
    params.add("cen_l", expr="peak_split+cen_g")
    params.add("wid_g", value=1)
    params.add("wid_l", expr="2*wid_g")

    def residual(p, x, y):
        peaks = gaussian(x, p["amp_g"], p["cen_g"], p["wid_g"]) + lorentzian(x, p["amp_l"], p["cen_l"], p["wid_l"])
        return peaks + 0.5 + 0.05 * x - y

    return described(minimize(residual, params, args=(x, y), **TIGHT), x=x, y=y)


def algebraic_constraint() -> dict:
    """ "Fit with Algebraic Constraint": a sum that is given, and one centre that follows from the other."""
    from lmfit import Parameters, minimize
    from lmfit.lineshapes import gaussian, lorentzian

    x, y = peaks_on_a_line(3)
    params = Parameters()
    params.add("total_amplitude", value=30)
    params.add("amp_g", value=15)
    params.add("amp_l", expr="total_amplitude - amp_g")
    params.add("cen_g", value=8)
    params.add("cen_l", expr="1.5+cen_g")
    params.add("wid_g", value=1)
    params.add("wid_l", expr="2*wid_g")
    params.add("line_slope", value=0.0)
    params.add("line_off", value=0.0)

    def residual(p, x, y):
        peaks = gaussian(x, p["amp_g"], p["cen_g"], p["wid_g"]) + lorentzian(x, p["amp_l"], p["cen_l"], p["wid_l"])
        return peaks + p["line_off"] + p["line_slope"] * x - y

    return described(minimize(residual, params, args=(x, y), **TIGHT), x=x, y=y)


def expression_model() -> dict:
    """ "Using an ExpressionModel"."""
    from lmfit.models import ExpressionModel

    x = np.linspace(-10, 10, 201)
    y = 3.4 * np.exp(-((x - 1.8) ** 2) / (2 * 0.5**2)) / (np.sqrt(2 * np.pi) * 0.5)
    x, y = rounded(x, y + np.random.default_rng(4).normal(size=x.size, scale=0.05))
    model = ExpressionModel("amp * exp(-(x-cen)**2 /(2*wid**2))/(sqrt(2*pi)*wid)")
    return described(model.fit(y, x=x, amp=5, cen=1, wid=1, fit_kws=TIGHT), x=x, y=y)


def leave_one_out() -> dict:
    """ "Outlier detection via leave-one-out": the fit without each of the data."""
    import lmfit

    x = np.round(np.linspace(0.3, 10, 40), 6)
    y = 1 / (0.1 * x) + 2.0 + 0.3 * np.sin(x) + np.random.default_rng(1).normal(scale=0.1, size=40)
    y[[15, 25]] += [2.0, 1.5]
    y = np.round(y, 5)

    def curve(x, a, b, c):
        return 1 / (a * x) + b + c * np.sin(x)

    model, found = lmfit.Model(curve), {"a": [], "b": [], "c": [], "chi_square": []}
    for k in range(40):
        kept = np.arange(40) != k
        result = model.fit(y[kept], x=x[kept], a=0.2, b=1.5, c=0.2, fit_kws=TIGHT)
        for name in "abc":
            found[name].append(result.params[name].value)
        found["chi_square"].append(result.chisqr)
    return {"x": x, "y": y, "without": found}


def uncertainty_of_parts() -> dict:
    """ "Calculating and plotting the uncertainty of a fit": bands of three standard deviations, and of the data."""
    from lmfit.models import ExponentialModel, GaussianModel

    x = np.linspace(0.0, 10.0, 120)
    y = 5 * np.exp(-x / 3) + 4 / (0.5 * np.sqrt(2 * np.pi)) * np.exp(-((x - 6) ** 2) / (2 * 0.5**2))
    x, y = rounded(x, y + np.random.default_rng(6).normal(scale=0.1, size=x.size))
    model = GaussianModel(prefix="g_") + ExponentialModel(prefix="e_")
    params = model.make_params(g_amplitude=3, g_center=5.8, g_sigma=0.6, e_amplitude=4, e_decay=2)
    result = model.fit(y, params, x=x, fit_kws=TIGHT)
    places = np.array([1.0, 5.5, 6.0, 9.0])
    band = result.eval_uncertainty(x=places, sigma=3)
    parts = result.eval_components(x=places)
    return described(result, x=x, y=y, places=places, band=band, predicted=result.dely_predicted, parts=parts)


def convolved_step() -> dict:
    """ "Composite models via other binary operators": a step convolved with a Gaussian."""
    from lmfit import CompositeModel, Model
    from lmfit.lineshapes import gaussian

    x = np.linspace(0, 10, 201)
    y = np.where(x > 4.0, 7.0, 0.5)
    kernel = np.exp(-((x - 5) ** 2) / (2 * 0.4**2))
    y = np.convolve(np.pad(y, 100, mode="edge"), kernel / kernel.sum(), mode="valid")
    x, y = rounded(x, y + np.random.default_rng(8).normal(scale=0.1, size=201))

    def height(x, low, high):
        return np.where(x > 4.0, high, low)

    def convolve(step, kernel):
        return np.convolve(np.pad(step, len(step) // 2, mode="edge"), kernel / kernel.sum(), mode="valid")

    model = CompositeModel(Model(height), Model(gaussian), convolve)
    params = model.make_params(low=0, high=5, amplitude=1, center=5, sigma=0.8)
    params["amplitude"].vary = params["center"].vary = False
    return described(model.fit(y, params, x=x, fit_kws=TIGHT), x=x, y=y)


def global_minimum() -> dict:
    """ "Global minimization using the brute method": a wave of unknown frequency, sought on a grid, then polished."""
    import lmfit

    x = np.linspace(0, 6, 60)
    y = 1.7 * np.sin(5.3 * x + 0.4) + np.random.default_rng(9).normal(scale=0.2, size=60)
    x, y = rounded(x, y)
    params = lmfit.Parameters()
    params.add("size", value=1, min=0.5, max=3, brute_step=0.25)
    params.add("frequency", value=1, min=0.5, max=9, brute_step=0.1)
    params.add("shift", value=0, min=-3.2, max=3.2, brute_step=0.4)

    def residual(p, x, y):
        return p["size"] * np.sin(p["frequency"] * x + p["shift"]) - y

    best = lmfit.minimize(residual, params, args=(x, y), method="brute")
    return described(lmfit.minimize(residual, best.params, args=(x, y), **TIGHT), x=x, y=y)


EXAMPLES = (
    complex_resonator,
    two_dimensional_peak,
    with_derivatives,
    inequality_constraint,
    algebraic_constraint,
    expression_model,
    leave_one_out,
    uncertainty_of_parts,
    convolved_step,
    global_minimum,
)


def main() -> None:
    """Write what lmfit finds."""
    import lmfit

    found = {example.__name__: example() for example in EXAMPLES}
    found["made_by"] = f"lmfit {lmfit.__version__}, python -m benchmarks.lmfit_gallery"
    FILE.write_text(json.dumps(found, default=np.ndarray.tolist) + "\n")


if __name__ == "__main__":
    main()
