"""lmfit's documentation examples on data made by a fixed seed: what lmfit finds, for tests, and how fast it is.

    python -m benchmarks.lmfit_peer  # in an environment with lmfit, writes tests/data/lmfit/examples.json

Nothing here needs TensorFlow. The file holds the data, too, so that tests need neither lmfit nor the same generator.
"""

import json
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "data" / "lmfit" / "examples.json"
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def gauss2() -> tuple[np.ndarray, np.ndarray]:
    """x and y of NIST's Gauss2: two blended peaks on a decay."""
    return np.loadtxt(ROOT / "tests" / "data" / "nist" / "Gauss2.dat", skiprows=60)[:, ::-1].T


def rounded(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return data with few digits, so that the file stays small and holds exactly what was fitted."""
    return np.round(x, 6), np.round(y, 5)


def described(result, **more) -> dict:
    """What a result of lmfit says, as numbers."""
    found = {
        "values": {name: each.value for name, each in result.params.items()},
        "errors": {name: each.stderr for name, each in result.params.items()},
        "correlations": {name: each.correl or {} for name, each in result.params.items() if each.vary},
        "chi_square": result.chisqr,
        "reduced_chi_square": result.redchi,
        "aic": result.aic,
        "bic": result.bic,
    }
    return {**found, **more}


def gaussian_peak() -> dict:
    """Model(f).fit of one peak, as in "A simple example: Fit Gaussian data"."""
    import lmfit

    x = np.linspace(0, 10, 101)
    y = 8.88 / (np.sqrt(2 * np.pi) * 0.7) * np.exp(-((x - 5.66) ** 2) / (2 * 0.7**2))
    y = y + np.random.default_rng(1).normal(scale=0.2, size=x.size)

    x, y = rounded(x, y)

    def peak(x, amp, cen, wid):
        return amp / (np.sqrt(2 * np.pi) * wid) * np.exp(-((x - cen) ** 2) / (2 * wid**2))

    result = lmfit.Model(peak).fit(y, x=x, amp=5, cen=5, wid=1, fit_kws=TIGHT)
    band = result.eval_uncertainty(x=np.array([5.0, 8.0]), sigma=2)
    return described(result, x=x, y=y, r_squared=result.rsquared, band_2_sigma=band)


def two_peaks(start: bool = False):
    """The parameters and the model of "Fitting Multiple Peaks – Using Prefixes"; `start` returns only these."""
    from lmfit.models import ExponentialModel, GaussianModel

    model = ExponentialModel(prefix="exp_") + GaussianModel(prefix="g1_") + GaussianModel(prefix="g2_")
    params = model.make_params(exp_amplitude=100, exp_decay=100)
    for peak, center, low, high in (("g1", 105, 75, 125), ("g2", 155, 125, 175)):
        params[f"{peak}_center"].set(value=center, min=low, max=high)
        params[f"{peak}_sigma"].set(value=15, min=0)
        params[f"{peak}_amplitude"].set(value=2000, min=0)
    if start:
        return model, params
    x, y = gauss2()
    result = model.fit(y, params, x=x, fit_kws=TIGHT)
    return described(result, r_squared=result.rsquared)


def step_and_line() -> dict:
    """ "Fitting Data with a Step and a Line": a rounded step on a slope, from `guess`."""
    from lmfit.models import LinearModel, StepModel

    x = np.linspace(0, 10, 201)
    y = np.ones_like(x)
    y[:48], y[48:77] = 0.0, np.arange(77 - 48) / (77.0 - 48)
    y = 110.2 * (y + 9e-3 * np.random.default_rng(0).normal(size=x.size)) + 12.0 + 2.22 * x
    x, y = rounded(x, y)
    step, line = StepModel(form="erf", prefix="step_"), LinearModel(prefix="line_")
    params = line.make_params(intercept=y.min(), slope=0) + step.guess(y, x=x)
    result = (step + line).fit(y, params, x=x, fit_kws=TIGHT)
    return described(result, x=x, y=y, r_squared=result.rsquared)


def damped_sine() -> dict:
    """ "Getting Started": minimize of residuals, with bounds and a fixed parameter."""
    import lmfit

    x = np.linspace(0, 15, 301)
    y = 5.0 * np.sin(2.0 * x - 0.1) * np.exp(-x * x * 0.025)
    y = y + np.random.default_rng(2).normal(scale=0.2, size=x.size)
    x, y = rounded(x, y)
    params = lmfit.Parameters()
    params.add("amp", value=10, min=0)
    params.add("decay", value=0.1)
    params.add("shift", value=0.0, min=-np.pi / 2, max=np.pi / 2)
    params.add("omega", value=2.05, min=0)
    params.add("offset", value=0.0, vary=False)

    def residual(p, x, y):
        p = p.valuesdict()
        return p["amp"] * np.sin(x * p["omega"] + p["shift"]) * np.exp(-x * x * p["decay"]) + p["offset"] - y

    return described(lmfit.minimize(residual, params, args=(x, y), **TIGHT), x=x, y=y)


def shared_amplitude() -> dict:
    """ "Using Mathematical Constraints": two decays, whose amplitudes and rates are tied, with an inequality."""
    import lmfit

    x = np.linspace(0, 10, 121)
    y = 12.0 * np.exp(-x / 0.8) + 8.0 * np.exp(-x / 3.1) + np.random.default_rng(3).normal(scale=0.05, size=x.size)
    x, y = rounded(x, y)
    params = lmfit.Parameters()
    params.add("amp_tot", value=15)
    params.add("frac", value=0.5, min=0, max=1)
    params.add("amp1", expr="amp_tot*frac")
    params.add("amp2", expr="amp_tot*(1 - frac)")
    params.add("tau1", value=1.0)
    params.add("delta", value=1.0, min=0)
    params.add("tau2", expr="tau1 + delta")
    params.add("mean_life", expr="(amp1*tau1**2 + amp2*tau2**2)/(amp1*tau1 + amp2*tau2)")

    def residual(p, x, y):
        p = p.valuesdict()
        return p["amp1"] * np.exp(-x / p["tau1"]) + p["amp2"] * np.exp(-x / p["tau2"]) - y

    return described(lmfit.minimize(residual, params, args=(x, y), **TIGHT), x=x, y=y)


def bounded_sine() -> dict:
    """ "Fit Using Bounds"."""
    import lmfit

    x = np.linspace(0, 250, 500)
    y = 14.0 * np.sin(0.12345 + x / 5.33) * np.exp(-x * x * 0.01**2)
    y = y + np.random.default_rng(4).normal(scale=2.8, size=x.size)
    x, y = rounded(x, y)
    params = lmfit.Parameters()
    params.add("amp", value=13.0, max=20, min=0.0)
    params.add("period", value=5.2, max=10, min=2)
    params.add("shift", value=0.0, max=np.pi / 2.0, min=-np.pi / 2.0)
    params.add("decay", value=0.02, max=0.10, min=0.00)

    def residual(p, x, y):
        p = p.valuesdict()
        return p["amp"] * np.sin(p["shift"] + x / p["period"]) * np.exp(-x * x * p["decay"] ** 2) - y

    return described(lmfit.minimize(residual, params, args=(x, y), **TIGHT), x=x, y=y)


def profile_of_a_hyperbola() -> dict:
    """ "A basic example" of confidence intervals."""
    import lmfit

    x = np.linspace(0.3, 10, 100)
    y = 1 / (0.1 * x) + 2 + np.random.default_rng(0).normal(scale=0.1, size=x.size)
    x, y = rounded(x, y)
    params = lmfit.create_params(a=0.1, b=1)

    def residual(p):
        return 1 / (p["a"] * x) + p["b"] - y

    fitter = lmfit.Minimizer(residual, params)
    result = fitter.minimize(**TIGHT)
    return described(result, x=x, y=y, intervals=lmfit.conf_interval(fitter, result))


def profile_of_two_decays() -> dict:
    """ "An advanced example": strongly correlated parameters, whose intervals are lopsided."""
    import lmfit

    x = np.linspace(1, 10, 250)
    y = 3 * np.exp(-x / 2) - 5 * np.exp(-(x - 0.1) / 10) + np.random.default_rng(0).normal(scale=0.1, size=x.size)
    x, y = rounded(x, y)
    params = lmfit.create_params(a1=4, a2=-5, t1=3, t2=9)

    def residual(p):
        return p["a1"] * np.exp(-x / p["t1"]) + p["a2"] * np.exp(-(x - 0.1) / p["t2"]) - y

    fitter = lmfit.Minimizer(residual, params)
    result = fitter.minimize(**TIGHT)
    return described(result, x=x, y=y, intervals=lmfit.conf_interval(fitter, result, sigmas=[1, 2]))


def several_data_sets() -> dict:
    """ "Fit Multiple Data Sets": five peaks of one width."""
    import lmfit

    rng, x = np.random.default_rng(5), np.linspace(-1, 2, 151)
    sets = []
    for _ in range(5):
        amp, cen, sig = 2.6 + 9.5 * rng.uniform(), -0.2 + 1.2 * rng.uniform(), 0.25
        sets.append(amp * np.exp(-((x - cen) ** 2) / (2 * sig**2)) + rng.normal(scale=0.1, size=x.size))
    x, sets = rounded(x, np.array(sets))
    params = lmfit.Parameters()
    for k in range(1, 6):
        params.add(f"amp_{k}", value=5.0, min=0.0, max=200)
        params.add(f"cen_{k}", value=0.4, min=-2.0, max=2.0)
        params.add(f"sig_{k}", value=0.3, min=0.01, max=3.0)
        if k > 1:
            params[f"sig_{k}"].expr = "sig_1"

    def residual(p):
        curves = [p[f"amp_{k}"] * np.exp(-((x - p[f"cen_{k}"]) ** 2) / (2 * p[f"sig_{k}"] ** 2)) for k in range(1, 6)]
        return np.ravel(np.array(curves) - sets)

    return described(lmfit.minimize(residual, params, **TIGHT), x=x, y=sets)


def weighted_decay(scale_covar: bool = True) -> dict:
    """ExponentialModel with weights, the errors of counts; errors of parameters scaled by χ², or not."""
    from lmfit.models import ConstantModel, ExponentialModel

    x = np.linspace(0, 20, 61)
    y = np.random.default_rng(6).poisson(400 * np.exp(-x / 3.7) + 20).astype(float)
    x, y = rounded(x, y)
    model = ExponentialModel() + ConstantModel()
    params = model.make_params(amplitude=300, decay=5, c=10)
    result = model.fit(y, params, x=x, weights=1 / np.sqrt(y), scale_covar=scale_covar, fit_kws=TIGHT)
    return described(result, x=x, y=y)


def weighted_decay_absolute() -> dict:
    """The same with `scale_covar=False`."""
    return weighted_decay(scale_covar=False)


def voigt_like_peak() -> dict:
    """PseudoVoigtModel, from "Fit Peak data with Gaussian, Lorentzian, and Voigt profiles"."""
    from lmfit.models import PseudoVoigtModel

    x = np.linspace(0, 20, 401)
    bell = np.exp(-np.log(2) * (x - 9.2) ** 2 / 1.1**2) * np.sqrt(np.log(2) / np.pi) / 1.1
    y = 25 * (0.4 * bell + 0.6 / (np.pi * 1.1 * (1 + ((x - 9.2) / 1.1) ** 2)))
    y = y + np.random.default_rng(7).normal(scale=0.05, size=x.size)
    x, y = rounded(x, y)
    model = PseudoVoigtModel()
    result = model.fit(y, model.guess(y, x=x), x=x, fit_kws=TIGHT)
    return described(result, x=x, y=y, r_squared=result.rsquared)


EXAMPLES = (
    gaussian_peak, two_peaks, step_and_line, damped_sine, shared_amplitude, bounded_sine, profile_of_a_hyperbola,
    profile_of_two_decays, several_data_sets, weighted_decay, weighted_decay_absolute, voigt_like_peak,
)  # fmt: skip


def fit_of_two_peaks(names):
    """A function that fits Gauss2 as lmfit does by default, and returns values and errors of the parameters `names`."""
    model, params = two_peaks(start=True)
    x, y = gauss2()

    def fit():
        found = model.fit(y, params, x=x).params
        return [found[name].value for name in names], [found[name].stderr for name in names]

    return fit


def loop_over(names, curves, values):
    """A function that fits curve after curve from `values`, without errors, and returns the parameters found."""
    model, params = two_peaks(start=True)
    x, _ = gauss2()
    for name in names:
        params[name].value = values[name]

    def fits():
        found = [model.fit(y, params, x=x, calc_covar=False).params for y in curves]
        return np.array([[each[name].value for name in names] for each in found])

    return fits


def _plain(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def main() -> None:
    import lmfit

    found = {"lmfit": lmfit.__version__}
    for example in EXAMPLES:
        found[example.__name__] = {name: _plain(value) for name, value in example().items()}
        print(example.__name__, found[example.__name__]["values"])
    FILE.write_text(json.dumps(found, indent=None, default=_plain).replace('}, "', '},\n"') + "\n")


if __name__ == "__main__":
    main()
