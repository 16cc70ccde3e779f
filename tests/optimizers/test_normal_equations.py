"""Parts of the data: their normal equations add up to NumPy's of all, and a loop over them ends where SciPy does."""

import io
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tests.processes import ROOT
from tfjac.optimizers import NielsenDamping, NormalEquations, Status

RNG = np.random.default_rng(0)
T = np.linspace(0.0, 4.0, 60)
Y = 3.0 * np.exp(-1.3 * T) + 0.5 + 0.01 * RNG.normal(size=60)
START = np.array([1.0, 0.3, 0.0])


def residuals(w):
    return w[0] * np.exp(-w[1] * T) + w[2] - Y


def jacobian(w):
    decay = np.exp(-w[1] * T)
    return np.stack([decay, -w[0] * T * decay, np.ones_like(T)], axis=1)


def parts(variables, pieces, **options):
    def decay(t, y):
        rates, offset = variables
        return rates[0] * tf.exp(-rates[1] * t) + offset - y

    return [tfjac.normal_equations(decay, variables, (T[piece], Y[piece]), **options) for piece in pieces]


def variables_at(position, dtype="float64"):
    return [tf.Variable(position[:2], dtype=dtype), tf.Variable(position[2], dtype=dtype)]


def moved(variables, position):
    variables[0].assign(position[:2])
    variables[1].assign(position[2])
    return variables


THREE = [slice(0, 7), slice(7, 40), slice(40, 60)]


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(("dtype", "gram_dtype"), [("float64", None), ("float32", None), ("float32", "float64")])
def test_the_sum_of_parts_is_that_of_all(dtype, gram_dtype):
    total = sum(parts(variables_at(START, dtype), THREE, gram_dtype=gram_dtype))
    r, rows = residuals(START), jacobian(START)
    tolerance = {"rtol": 1e-12 if dtype == "float64" else 1e-5}
    np.testing.assert_allclose(total.gram, rows.T @ rows, **tolerance)
    np.testing.assert_allclose(total.gradient, rows.T @ r, **tolerance)
    assert total.cost == pytest.approx(r @ r / 2, rel=tolerance["rtol"])
    assert total.num_residuals == 60 and total.gram.dtype == np.dtype(gram_dtype or dtype)


@pytest.mark.parametrize(("scaling", "diagonal"), [("identity", lambda gram: np.ones(3)), ("marquardt", np.diag)])
def test_a_step_and_what_it_promises(scaling, diagonal):
    (total,) = parts(variables_at(START), [slice(None)])
    r, rows = residuals(START), jacobian(START)
    gram, weights = rows.T @ rows, diagonal(rows.T @ rows)
    expected = -np.linalg.solve(gram + 0.1 * np.diag(weights), rows.T @ r)
    for found in (total.step(0.1, scaling), total.step(0.1, weights)):
        np.testing.assert_allclose(found.step, expected, rtol=1e-10)
        assert found.predicted == pytest.approx((r @ r - ((r + rows @ expected) ** 2).sum()) / 2) and found.solved


def test_bytes_and_pickles():
    (part,) = parts(variables_at(START), THREE[:1])
    for copy in (NormalEquations.from_bytes(part.to_bytes()), pickle.loads(pickle.dumps(part))):
        np.testing.assert_array_equal(copy.gram, part.gram)
        np.testing.assert_array_equal(copy.gradient, part.gradient)
        assert (copy.cost, copy.num_residuals) == (part.cost, part.num_residuals)
    for broken in (b"", b"abc", part.to_bytes()[:-40]):
        with pytest.raises(ValueError, match=rf"or not all of them.*Received: {len(broken)} bytes"):
            NormalEquations.from_bytes(broken)


def test_a_part_without_data_adds_nothing():
    some, none = parts(variables_at(START), [slice(None), slice(0, 0)])
    assert (none.num_residuals, none.cost) == (0, 0.0) and none.gram.shape == (3, 3) and not none.gram.any()
    for total in (some + none, none + some):
        np.testing.assert_array_equal(total.gram, some.gram)
        assert (total.cost, total.num_residuals) == (some.cost, 60)
    assert not none.step(0.0).solved and not none.step(1.0).step.any()


def test_parts_at_another_point_are_refused():
    """Those of float32 are at the same point as those of float64 that they were rounded from."""
    here, there = (parts(variables_at(position), THREE[:1])[0] for position in (START, START + 1e-3))
    (rounded,) = parts(variables_at(START, "float32"), THREE[1:2], gram_dtype="float64")
    assert (here + rounded).num_residuals == 40 and (rounded + here).num_residuals == 40
    for copy in (there, NormalEquations.from_bytes(there.to_bytes()), pickle.loads(pickle.dumps(there))):
        with pytest.raises(ValueError, match=r"at the same point add up: .*Received: those at"):
            here + copy
    with pytest.raises(ValueError, match=r"at the parameters it was given: .*Received: those at"):
        tfjac.least_squares_by_parts(lambda position: here, START)


WORKER = """
import sys
import numpy as np
from tests.optimizers.test_normal_equations import START, THREE, moved, parts, variables_at
variables = variables_at(START)
while data := sys.stdin.buffer.read(24):
    answer = sum(parts(moved(variables, np.frombuffer(data)), THREE[1:])).to_bytes()
    sys.stdout.buffer.write(len(answer).to_bytes(8, "little") + answer)
    sys.stdout.buffer.flush()
"""


@pytest.mark.by_day(None)
def test_a_loop_over_two_processes_ends_where_scipy_does():
    command, variables = [sys.executable, "-c", WORKER], variables_at(START)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as worker:

        def total(position):
            worker.stdin.write(position.tobytes())
            worker.stdin.flush()
            (own,) = parts(moved(variables, position), THREE[:1])
            size = int.from_bytes(worker.stdout.read(8), "little")
            return own + NormalEquations.from_bytes(worker.stdout.read(size))

        result = tfjac.least_squares_by_parts(total, START, ftol=1e-14, xtol=1e-12, gtol=1e-12)
        worker.stdin.close()
    expected = scipy.optimize.least_squares(residuals, START, jacobian, method="lm", xtol=1e-15, ftol=1e-15)
    assert result.status.converged and result.success
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-8)
    assert result.cost == pytest.approx(expected.cost, rel=1e-10)


def written_down(position):
    r, rows = residuals(position), jacobian(position)
    return NormalEquations(rows.T @ rows, rows.T @ r, float(r @ r / 2), len(r))


def test_a_far_start_takes_rejections_and_the_count_of_steps_ends_it():
    costs = []
    options = {"damping": NielsenDamping(1e-12), "scaling": "identity"}
    far = np.array([30.0, 3.0, 9.0])
    result = tfjac.least_squares_by_parts(written_down, far, **options, callback=lambda *a: costs.append(a[2]))
    expected = scipy.optimize.least_squares(residuals, far, jacobian, method="lm")
    assert result.cost == pytest.approx(expected.cost, rel=1e-6) and (np.diff(costs) <= 0).all()
    assert (np.diff(costs) == 0).any(), "a step was rejected on the way"
    assert tfjac.least_squares_by_parts(written_down, far, max_steps=2, **options).status is Status.MAX_STEPS
    stopped = tfjac.least_squares_by_parts(written_down, far, callback=lambda steps, x, cost: steps == 3)
    assert stopped.status is Status.STOPPED and stopped.steps == 3


def test_ctrl_c_is_a_result(ctrl_c):
    """Noted in the middle of an evaluation, or raised by it at once, where an engine does so."""

    def press():
        signal.raise_signal(signal.SIGINT)

    def fail():
        raise KeyboardInterrupt

    def check(interrupt, evaluations):
        seen = []

        def total(position):
            seen.append(position)
            if len(seen) == 4:
                interrupt()
            return written_down(position)

        result = tfjac.least_squares_by_parts(total, START)
        assert result.status is Status.INTERRUPTED and result.steps == evaluations - 1
        assert result.cost == min(written_down(each).cost for each in seen[:evaluations])

    check(press, 4)
    check(fail, 3)

    def stop(steps, position, cost):
        position[:] = np.nan
        raise StopIteration

    assert tfjac.least_squares_by_parts(written_down, START, callback=stop).status is Status.STOPPED


@pytest.mark.by_day(None)
def test_parts_in_single_precision_converge_to_that():
    def total(position):
        return sum(parts(variables_at(position, "float32"), THREE))

    result = tfjac.least_squares_by_parts(total, START)
    assert result.status.converged and result.steps < 15
    np.testing.assert_allclose(result.x, tfjac.least_squares_by_parts(written_down, START).x, rtol=1e-4)


@pytest.mark.by_day(None)
def test_what_is_not_finite():
    broken = NormalEquations(np.full((3, 3), np.nan), np.zeros(3), np.nan, 60)
    step = (broken + written_down(START)).step(1.0)
    assert not step.solved and (step.step == 0).all()
    result = tfjac.least_squares_by_parts(lambda position: broken, START)
    assert result.status is Status.NOT_FINITE and (result.x == START).all()
    beyond = lambda w: written_down(w) if w[1] < 0.5 else broken  # noqa: E731
    inside = tfjac.least_squares_by_parts(beyond, START)
    assert np.isfinite(inside.cost) and inside.x[1] < 0.5 and inside.cost < written_down(START).cost


def test_what_is_refused():
    total = written_down(START)
    other = NormalEquations(np.eye(2), np.ones(2), 1.0, 2)
    with pytest.raises(ValueError, match=r"in the same parameters add up. Received: those in 3 and in 2 parameters"):
        sum([total, other])
    with pytest.raises(TypeError):
        total + 1
    with pytest.raises(ValueError, match=r"gram_dtype must be None, .*Received: gram_dtype='float16'"):
        parts(variables_at(START), THREE, gram_dtype="float16")
    with pytest.raises(ValueError, match=r"take a matrix \[p, p\] and a vector \[p\]. Received: .*\(2, 2\) and \(3,\)"):
        NormalEquations(np.eye(2), np.ones(3), 1.0, 2)
    with pytest.raises(TypeError, match=r"takes what to_bytes returned. Received: None"):
        NormalEquations.from_bytes(None)
    file = io.BytesIO()
    np.save(file, np.eye(2))
    with pytest.raises(ValueError, match=r"not those of NormalEquations.to_bytes"):
        NormalEquations.from_bytes(file.getvalue())
    with pytest.raises(ValueError, match=r"damping must be a number that is not negative. Received: damping=-1"):
        total.step(-1)
    with pytest.raises(ValueError, match="positive numbers, one for each of 3 parameters"):
        total.step(1, [1.0, 0.0, 1.0])
    with pytest.raises(TypeError, match=r"total must return the sum .*Received: 0"):
        tfjac.least_squares_by_parts(lambda position: 0, START)
    with pytest.raises(ValueError, match=r"in the 3 parameters it was given. Received: those in 2"):
        tfjac.least_squares_by_parts(lambda position: other, START)
    with pytest.raises(ValueError, match=r"start must be a vector .*shape \(3, 1\)"):
        tfjac.least_squares_by_parts(written_down, START[:, None])
    with pytest.raises(ValueError, match="inside of a graph"):
        tf.function(lambda: parts(variables_at(START), THREE))()


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x80\x04\x95", b"PK\x03\x04garbage", b"PK\x05\x06" + bytes(18)])
def test_other_bytes_are_refused_without_advice_to_trust_them(data):
    with pytest.raises(ValueError, match=r"not those of NormalEquations.to_bytes") as raised:
        NormalEquations.from_bytes(data)
    assert "pickle" not in str(raised.value) and f"{len(data)} bytes" in str(raised.value)
