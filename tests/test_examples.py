"""The examples run, and show what they claim to show."""

import importlib.util
import itertools
import os
import pathlib
import re

import matplotlib.image
import numpy as np
import pytest
from scipy import optimize

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.fixture
def load(monkeypatch):
    """Import an example by its file name, the way Python runs a script: with its folder on the path."""
    monkeypatch.syspath_prepend(EXAMPLES)

    def module(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        return example

    return module


def test_yacht_split_is_a_partition(load):
    data = load("example_data")
    for split in range(3):
        rows = [
            np.loadtxt(EXAMPLES / "data" / "yacht" / f"index_{part}_{split}.txt", dtype=int)
            for part in ("train", "test")
        ]
        assert sorted(np.concatenate(rows)) == list(range(308))
        loaded = data.load_yacht(split)
        assert loaded.x_train.shape == (277, 6) and loaded.y_test.shape == (31, 1)
        np.testing.assert_allclose(loaded.x_train.std(axis=0), 1.0, rtol=1e-5)


def test_nist_file_is_consistent(load):
    """The certified parameters leave the certified residual sum of squares."""
    problem = load("example_data").load_nist("MGH17")
    b, x = problem.parameters, problem.x
    residuals = b[0] + b[1] * np.exp(-x * b[3]) + b[2] * np.exp(-x * b[4]) - problem.y
    np.testing.assert_allclose(residuals @ residuals, problem.residual_sum_of_squares, rtol=1e-9)


class Ticks:
    """A clock that goes on by one second each time it is read: training steps, not the machine, make the time pass."""

    def __init__(self):
        self.perf_counter = itertools.count(0.0).__next__


@pytest.mark.by_day(None)
def test_regression_beats_adam_in_the_same_time(load, tmp_path, capsys, monkeypatch):
    """Issue of the foundation: a lower training loss in 100 steps than Adam in the same time.

    Here that is a compiled call of ten steps for each of Levenberg–Marquardt's, more than the clock on the wall gives.
    """
    plot, example = tmp_path / "curve.png", load("01_regression")
    monkeypatch.setattr(example, "time", Ticks())
    curves = example.main(["--steps", "100", "--plot", str(plot)])
    (lm_seconds, lm_steps, lm_loss), (adam_seconds, adam_steps, adam_loss) = (curve[-1] for curve in curves.values())
    assert lm_steps == 100 and adam_steps == 1000
    assert adam_seconds == lm_seconds
    assert lm_loss < adam_loss
    losses = [loss for _, _, loss in curves["Levenberg–Marquardt"]]
    assert all(later <= earlier * (1 + 1e-4) for earlier, later in itertools.pairwise(losses))
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    assert "test RMSE" in capsys.readouterr().out


@pytest.mark.by_day(None)
def test_curve_fit_reaches_the_certified_parameters(load, tmp_path):
    plot = tmp_path / "curves.png"
    assert load("02_curve_fit").main(["--plot", str(plot)]) >= 6
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_clipping_withstands_wrong_rows(load, tmp_path):
    plot = tmp_path / "norms.png"
    results = load("03_per_example_gradients").main(["--plot", str(plot)])
    assert results["sum of clipped gradients"] < results["sum of gradients"]
    assert results["sum of clipped gradients, found"] >= 8
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_cnn_jacobian_agrees_with_tensorflow_and_with_the_model(load, tmp_path):
    plot = tmp_path / "kernel.png"
    results = load("04_cnn_jacobian").main(["--plot", str(plot)])
    assert results["difference"] < 1e-5
    assert results["order"] == pytest.approx(2.0, abs=0.3)
    assert results["reduction"] < 0.7
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_stiff_equation_converges_with_second_order(load, tmp_path):
    plot = tmp_path / "solution.png"
    results = load("05_stiff_pde").main(["--plot", str(plot)])
    assert results["products"] <= 6
    assert results["order"] == pytest.approx(2.0, abs=0.25)
    assert results["error"] < 1e-2
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_black_box_is_inverted(load, tmp_path, capsys):
    plot = tmp_path / "device.png"
    errors = load("06_black_box").main(["--plot", str(plot)])
    alone = errors.pop("the device alone")
    assert len(errors) == 3 and max(errors.values()) < alone / 3
    assert errors["central differences"] < alone / 7
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    assert "for derivatives" in capsys.readouterr().out


@pytest.mark.by_day(None)
def test_features_of_two_domains_are_made_alike(load, tmp_path, monkeypatch):
    """In half of its epochs."""
    plot, example = tmp_path / "domains.png", load("08_adversarial_domains")
    monkeypatch.setattr(example, "EPOCHS", 16)
    results = example.main(["--plot", str(plot)])
    plain, adversarial = results["plain"], results["adversarial"]
    assert plain["domain"] > 0.95 and adversarial["domain"] < 0.85
    assert adversarial["turned"] > plain["turned"] + 0.05 and adversarial["upright"] > plain["upright"] - 0.05
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_outliers_hardly_count(load, tmp_path, capsys):
    plot = tmp_path / "outliers.png"
    errors = load("10_outliers").main(["--plot", str(plot)])
    assert errors["Cauchy's loss"] < errors["least squares"] / 5
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    assert capsys.readouterr().out.count("95 % confidence interval") == 2


@pytest.mark.by_day(None)
def test_explanations_add_up_and_survive_saving(load, tmp_path):
    plot = tmp_path / "maps.png"
    results = load("07_explanations").main(["--plot", str(plot)])
    assert results["perceptron accuracy"] > 0.8 and results["convolutional accuracy"] > 0.9
    assert results["perceptron gap"] < 1e-5 and results["convolutional gap"] < 1e-4
    assert results["saved"] < 1e-5
    assert results["explained"] > 0.5
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_classification_goes_further_than_adam_and_lbfgs_in_as_many_calls(load, tmp_path, monkeypatch):
    """Ten steps of Adam in a call; on the wall, a step of Levenberg–Marquardt takes as long as many of the others'."""
    plot, example = tmp_path / "digits.png", load("09_classification")
    monkeypatch.setattr(example, "time", Ticks())
    results = example.main(["--steps", "9", "--plot", str(plot)])
    seconds, loss, accuracy = results.pop("Levenberg–Marquardt")
    assert all(other[0] == seconds and other[1] > 2 * loss for other in results.values())
    assert loss < 0.05 and accuracy > 0.9
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_poissons_equation_is_solved(load, tmp_path, monkeypatch):
    """A hundred steps of Adam for five of Levenberg–Marquardt; on the wall, it gets fewer."""
    plot, example = tmp_path / "poisson.png", load("11_physics_informed")
    monkeypatch.setattr(example, "time", Ticks())
    curves = example.main(["--steps", "40", "--plot", str(plot)])
    ours, adams = curves["Levenberg–Marquardt"], curves["Adam"]
    assert ours[-1][1] < 1e-3 and ours[-1][1] < ours[1][1] / 10
    assert adams[-1][0] == ours[-1][0] and adams[-1][1] > 20 * ours[-1][1]
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_a_network_is_unsure_where_there_are_no_data(load, tmp_path, capsys):
    """Less sure in the gap than at the data, and still less beyond the ends; the noise is found."""
    plot = tmp_path / "bands.png"
    deviations = load("12_uncertainty").main(["--plot", str(plot)])
    assert 3 * deviations["at the data"] < deviations["in the gap"] < deviations["beyond"]
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    assert "91 weights, 60 measurements" in capsys.readouterr().out


@pytest.mark.by_day(None)
def test_relaxation_times_are_off_by_their_errors(load, tmp_path, capsys):
    """As often within two standard errors as Student's t of 14 says, but for three standard deviations of that."""
    plot = tmp_path / "map.png"
    found = load("13_relaxation_map").main(["--side", "40", "--plot", str(plot)])
    expected, count = 0.9347, found["scores"].size
    assert abs(np.mean(np.abs(found["scores"]) < 2) - expected) < 3 * np.sqrt(expected * (1 - expected) / count)
    assert found["known"].all()
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    assert "1600 fits, 2 parameters each" in capsys.readouterr().out


@pytest.mark.by_day(None)
def test_a_bundle_ends_within_the_noise(load, tmp_path, capsys):
    plot = tmp_path / "house.png"
    found = load("14_bundle_adjustment").main(["--points", "500", "--plot", str(plot)])
    assert found["Dubrovnik"][0] > 10 > 1 > found["Dubrovnik"][1]
    assert found["house"][0] > 20 and 0.4 < found["house"][1] < 0.71  # half a pixel in both directions, less what fits
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    assert "500 rows of 3, which are eliminated" in capsys.readouterr().out


@pytest.mark.by_day(None)
def test_a_flight_agrees_with_the_places_that_it_saw_again(load, tmp_path, capsys):
    plot = tmp_path / "flight.png"
    before, after = load("15_pose_graph").main(["--rounds", "9", "--plot", str(plot)])
    assert before > 5 > 1.5 > after
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    printed = capsys.readouterr().out
    assert "solver: sparse" in printed and "Converged" in printed


@pytest.mark.by_day(None)
def test_cameras_are_off_by_their_errors(load, tmp_path):
    """As often within two standard errors as Student's t of 48 says, but for three standard deviations of that."""
    pytest.importorskip("tensorflow_graphics", reason="tensorflow-graphics is not installed")
    plot = tmp_path / "cameras.png"
    scores = load("16_camera_pose").main(["--cameras", "100", "--plot", str(plot)])
    expected, count = 0.9488, scores.size
    assert abs(np.mean(np.abs(scores) < 2) - expected) < 3 * np.sqrt(expected * (1 - expected) / count)
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_private_training_reads_most_digits(load, tmp_path, monkeypatch):
    """One ε of the four keeps this short; one digit in ten is what guesses get."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    plot, example = tmp_path / "privacy.png", load("17_private_training")
    monkeypatch.setattr(example, "EPSILONS", (3.0,))
    plain, private = example.main(["--steps", "100", "--plot", str(plot)])
    assert plain > 0.75
    assert set(private) == {"fixed", "automatic", "adaptive"}
    assert all(right > 0.35 for (right,) in private.values())  # batches and noise have no seed
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn


@pytest.mark.by_day(None)
def test_named_parameters_reach_certified_values_and_other_basins(load, tmp_path, capsys):
    plot = tmp_path / "peaks.png"
    found = load("18_named_parameters").main(["--fits", "100", "--plot", str(plot)])
    assert found["peaks"] < 1e-6
    linear, profile, bootstrap = found["ends"]
    assert profile[0] < linear[0] and profile[1] < linear[1]  # lopsided, to the same side
    assert abs(bootstrap[0] - profile[0]) < 1.0 and abs(bootstrap[1] - profile[1]) < 0.7
    one, best = found["costs"]
    assert best < one / 50
    assert matplotlib.image.imread(plot).std() > 0.05  # something was drawn
    told = re.search(r"40 starts, (\d+) converged(?s:.*) (\d+) +0  ", capsys.readouterr().out)
    converged, at_bound = map(int, told.groups())
    assert converged + at_bound == 40 and at_bound > 0  # where the amplitude is zero the shift leads farther down


CHUNKS, CHUNK, FATAL = 6, 20, 3


def watched(fitted, folder):
    """Return a function as `fitted` that notes chunks in files: who begins one, calls `tf.exp` for it, and ends it.

    The first column has the number of the chunk. The first process that is given a certain one dies.
    """

    def fit(measured):
        import tensorflow as tf

        number, exp = int(measured[0, 0]), tf.exp
        note = lambda what: pathlib.Path(folder, f"{number} {what} {os.getpid()}").touch()  # noqa: E731
        note("begun")
        if number == FATAL and len(list(pathlib.Path(folder).glob(f"{FATAL} begun *"))) == 1:
            os._exit(1)

        def traced(x):
            note("traced")
            return exp(x)

        tf.exp = traced
        found = fitted(measured[:, 1:])
        tf.exp = exp
        note("done")
        return found

    return fit


@pytest.mark.nightly
def test_a_worker_that_dies_costs_its_chunk_alone(load, tmp_path):
    """Many fits on a cluster are SciPy's, and each process traces once."""
    zarr, distributed = pytest.importorskip("zarr"), pytest.importorskip("distributed")
    example = load("fits_on_a_cluster")
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.5, 2.0, size=(CHUNKS * CHUNK, 2))
    curve = lambda t, amplitude, rate: amplitude * np.exp(-rate * t)  # noqa: E731
    measured = np.stack([curve(example.TIMES, *each) for each in truth]) + 0.02 * rng.normal(size=(len(truth), 25))
    numbered = np.concatenate([np.arange(len(truth))[:, None] // CHUNK, measured], axis=1)
    zarr.create_array(tmp_path / "measured.zarr", data=numbered, chunks=(CHUNK, 26))
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        fit = watched(example.fitted, str(tmp_path))
        example.fit(client, tmp_path / "measured.zarr", tmp_path / "fits.zarr", fit)
    found = zarr.open_array(tmp_path / "fits.zarr", mode="r")[:]
    assert found.shape == (len(truth), 5) and found[:, 4].all()
    for row, data in zip(found, measured):
        values, covariance = optimize.curve_fit(curve, example.TIMES, data, p0=[1.0, 1.0], xtol=1e-12, ftol=1e-12)
        np.testing.assert_allclose(row[:2], values, rtol=1e-5)
        np.testing.assert_allclose(row[2:4], np.sqrt(np.diag(covariance)), rtol=1e-4)
    notes = [tuple(path.name.split()) for path in tmp_path.glob("* * *")]
    begun, traced, done = ([note for note in notes if note[1] == what] for what in ("begun", "traced", "done"))
    assert len(done) == CHUNKS and len(begun) == CHUNKS + 1  # the fatal chunk was begun twice, and no other one
    assert len({process for *_, process in begun}) == 3
    assert len(traced) == len({process for *_, process in traced})  # each process has traced for one chunk alone
