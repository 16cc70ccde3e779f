"""Long minimisations: watched, stopped, interrupted and resumed, to the same bits."""

import os
import resource
import shutil
import signal
import threading

import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, Status, least_squares

START = [-1.2, 1.0]


def rosenbrock(x):
    return tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


X = tf.Variable(START, dtype=tf.float64)


def fit(**options):
    """From the same start, of the same variable, so that one trace serves."""
    X.assign(START)
    return least_squares(lambda: rosenbrock(X), X, **options)


def test_history_is_that_of_single_steps():
    """Each number against the same by hand, from the values that the callback saw."""
    seen = []
    result = fit(callback=seen.append)
    history = result.history
    points = np.array([START] + [state.x for state in seen])
    r = np.stack([10 * (points[:, 1] - points[:, 0] ** 2), 1 - points[:, 0]], axis=1)
    costs = np.sum(r**2, axis=1) / 2
    gradients = np.stack([-20 * points[:, 0] * r[:, 0] - r[:, 1], 10 * r[:, 0]], axis=1)
    assert len(history.cost) == result.steps == len(seen) and [state.steps for state in seen] == [
        *range(1, len(seen) + 1)
    ]
    np.testing.assert_allclose(history.cost, costs[1:], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(history.gradient_norm, np.abs(gradients[:-1]).max(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(history.accepted, np.any(points[1:] != points[:-1], axis=1))
    np.testing.assert_allclose(history.reduction[history.accepted], -np.diff(costs)[history.accepted], rtol=1e-9)
    assert history.attempts.sum() == result.evaluations == seen[-1].evaluations
    assert history.damping[-1] == result.damping and seen[0].elapsed < seen[-1].elapsed


def test_the_same_bits_watched_or_not(tmp_path):
    plain = fit()
    for options in ({"callback": lambda state: None}, {"time_limit": 60}, {"checkpoint": tmp_path / "run"}):
        other = fit(**options)
        assert other.x.tobytes() == plain.x.tobytes() == X.numpy().tobytes()
        assert (other.cost, other.steps, other.jacobians) == (plain.cost, plain.steps, plain.jacobians)
        assert all(np.array_equal(*pair) for pair in zip(other.history, plain.history))


@pytest.mark.parametrize("stop", ["true", "exception"])
def test_a_callback_stops(stop):
    def callback(state):
        if state.steps == 3 and stop == "exception":
            raise StopIteration
        return state.steps == 3

    result = fit(callback=callback)
    assert result.status is Status.STOPPED and result.steps == 3 and not result.success
    assert result.x.tobytes() == fit(max_steps=3).x.tobytes()
    np.testing.assert_allclose(result.cost, np.sum(rosenbrock(result.x).numpy() ** 2) / 2)
    assert result.gradient_norm == fit(max_steps=3).gradient_norm


def test_an_error_in_a_callback_comes_out_and_leaves_the_best_point():
    def callback(state):
        if state.steps == 2:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fit(callback=callback)
    assert X.numpy().tobytes() == fit(max_steps=2).x.tobytes()


def test_ctrl_c_is_a_result(ctrl_c):
    def callback(state):
        if state.steps == 4:
            os.kill(os.getpid(), signal.SIGINT)

    result = fit(callback=callback)
    assert result.status is Status.INTERRUPTED and result.steps == 4 and "Ctrl-C" in result.message
    assert result.x.tobytes() == fit(max_steps=4).x.tobytes()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.by_day(None)
def test_ctrl_c_without_anybody_watching(ctrl_c):
    """A signal from outside, in the middle of a minimisation that would take for ever."""
    x, slow = tf.Variable(1.0, dtype=tf.float64), tf.constant(np.random.default_rng(0).normal(size=(700, 700)))

    def residuals():
        waste = slow
        for _ in range(3):
            waste = tf.tanh(waste @ slow)
        return tf.exp(-x) + 1e-30 * x * waste[:1, 0]

    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    endless = {"damping": "nielsen", "max_steps": 10**8, "ftol": 0, "xtol": 0, "gtol": 0}
    least_squares(residuals, x, **endless, time_limit=1e-3)  # traced
    timer.start()
    result = least_squares(residuals, x, **endless, time_limit=60)
    timer.cancel()
    assert result.status is Status.INTERRUPTED and result.steps > 1 and result.x == x.numpy() > 1


def test_time_limit():
    ended = fit(time_limit=1e-9, ftol=0.0, xtol=0.0, gtol=0.0)
    assert ended.status is Status.TIME_LIMIT and ended.steps == 1 and np.isfinite(ended.cost)


def test_verbose(capsys):
    result = fit(verbose=2, max_steps=3)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and lines[0].split()[:3] == ["step", "evaluations", "cost"]
    assert f"{result.history.cost[1]:.6e}" in lines[2] and "max_steps" in lines[-1]
    fit(verbose=1)
    assert len(capsys.readouterr().out.splitlines()) == 1
    fit()
    assert not capsys.readouterr().out


def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path):
    file, whole = tmp_path / "run", fit()
    assert fit(max_steps=3, checkpoint=file).status is Status.MAX_STEPS
    assert fit(checkpoint=file, callback=lambda state: state.steps == 7).status is Status.STOPPED
    rest = fit(checkpoint=file)
    assert rest.x.tobytes() == whole.x.tobytes() == X.numpy().tobytes() and rest.cost == whole.cost
    assert (rest.status, rest.steps, rest.evaluations) == (whole.status, whole.steps, whole.evaluations)
    assert all(np.array_equal(*pair) for pair in zip(rest.history, whole.history))
    assert fit(checkpoint=file).x.tobytes() == whole.x.tobytes(), "it has converged, and stays so"


@pytest.mark.by_day(None)
def test_a_checkpoint_of_another_problem_is_refused(tmp_path):
    x = tf.Variable([1.0, 1.0], dtype=tf.float64)
    problem = LeastSquaresProblem(lambda y: x * x[0] - y, x, checkpoint=tmp_path / "run", max_steps=1)
    problem.solve(np.array([1.0, 3.0]))
    with pytest.raises(ValueError, match="checkpoint is of another problem"):
        problem.solve(np.array([1.0, 4.0]))
    x.assign([1.0, 1.0])
    other = LeastSquaresProblem(lambda y: x * x[1] - 2.0 * y, x, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="checkpoint is of other residuals"):
        other.solve(np.array([1.0, 3.0]))


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("window", [1, 3])
def test_a_checkpoint_that_has_converged_is_refused_for_other_residuals(tmp_path, window):
    file, away = tmp_path / "run", tf.constant([0.0, 0.1], tf.float64)
    X.assign([3.0, 3.0])
    bent = lambda: tf.concat([rosenbrock(X), X], axis=0)  # noqa: E731
    ended = least_squares(bent, X, checkpoint=file, window=window)
    assert ended.status.converged
    for other in (lambda: bent() * (1 + away[1]), lambda: bent()[:3], lambda: rosenbrock(X)):
        X.assign(START)
        with pytest.raises(ValueError, match=r"checkpoint is of (other residuals|another problem).*Received: "):
            least_squares(other, X, checkpoint=file, window=window)
        assert X.numpy().tolist() == START
    again = least_squares(bent, X, checkpoint=file, window=window)
    assert again.x.tobytes() == ended.x.tobytes() and (again.steps, again.jacobians) == (ended.steps, ended.jacobians)


@pytest.mark.by_day(None)
def test_a_checkpoint_knows_its_equations_again_wherever_the_variables_are(tmp_path):
    """Given as a function, they are read off its Jacobian."""
    equation = lambda x: 0.7 * x[0] + 0.3 * x[1] ** 2 / x[1] - 2.2 * away  # noqa: E731
    away, file = tf.Variable(1.1, dtype=tf.float64), tmp_path / "run"
    for place in np.random.default_rng(0).normal(size=[12, 2]) * 30:
        X.assign(START)
        least_squares(lambda: rosenbrock(X), X, 2, equality=equation, checkpoint=file)
        X.assign(place)
        result = least_squares(lambda: rosenbrock(X), X, equality=equation, checkpoint=file)
        np.testing.assert_allclose(0.7 * result.x[0] + 0.3 * result.x[1], 2.2 * 1.1, rtol=1e-14)
    X.assign(START)
    with pytest.raises(ValueError, match="checkpoint is of another problem"):
        least_squares(lambda: rosenbrock(X), X, equality=lambda x: equation(x) + 1e-9, checkpoint=file)


def test_a_checkpoint_that_cannot_be_written_at_all_is_refused_before_the_first_step(tmp_path):
    for path, error in ((tmp_path / "none" / "run", FileNotFoundError), (tmp_path, IsADirectoryError), ("", OSError)):
        with pytest.raises(error, match=r"checkpoint must be the path of a file .*Received: checkpoint="):
            fit(checkpoint=path)
        assert X.numpy().tolist() == START
    assert not list(tmp_path.iterdir())


def test_nothing_is_lost_where_the_disk_is_full(tmp_path, monkeypatch):
    """Neither the run, nor the checkpoint that there is."""
    monkeypatch.setattr("tfjac.fits.checkpoints.EVERY", 0.0)
    file, whole = tmp_path / "run", fit()
    fit(max_steps=3, checkpoint=file)
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(state):
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))

    try:
        with pytest.warns(UserWarning, match=r"could not be written; the minimisation goes on .*step \d+ \("):
            result = fit(checkpoint=file, callback=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.status.converged and result.x.tobytes() == whole.x.tobytes() == X.numpy().tobytes()
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]
    assert fit(checkpoint=file).steps == whole.steps


def test_nothing_is_lost_where_the_directory_goes(tmp_path):
    directory = tmp_path / "own"
    directory.mkdir()
    with pytest.warns(UserWarning, match="could not be written"):
        result = fit(checkpoint=directory / "run", callback=lambda state: shutil.rmtree(directory, ignore_errors=True))
    assert result.status.converged and result.x.tobytes() == X.numpy().tobytes()


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_a_file_that_is_no_checkpoint_is_refused_and_kept(tmp_path, content):
    file = tmp_path / "run.npz"
    if content is None:
        np.savez(file, other=1.0)
    else:
        file.write_bytes(content)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"no checkpoint of tfjac, or not all of one.*Received: checkpoint="):
        fit(checkpoint=file)
    assert file.read_bytes() == before and X.numpy().tolist() == START


def test_nobody_can_watch_inside_of_a_graph():
    @tf.function
    def inside():
        return least_squares(lambda: rosenbrock(X), X, verbose=1).cost

    with pytest.raises(ValueError, match=r"outside of a tf.function"):
        inside()


def test_bad_options():
    with pytest.raises(TypeError, match="callback must be a function"):
        fit(callback=3)
    with pytest.raises(ValueError, match="verbose must be 0, 1 or 2"):
        fit(verbose=7)
    with pytest.raises(ValueError, match="time_limit must be a positive number"):
        fit(time_limit=-1)


def test_more_steps_than_are_recorded_at_once():
    x = tf.Variable(0.0, dtype=tf.float64)
    result = least_squares(lambda: tf.exp(-x), x, max_steps=300, ftol=0, xtol=0, gtol=0)
    assert result.steps == 300 == len(result.history.cost) and (np.diff(result.history.cost) < 0).all()
