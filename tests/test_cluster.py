"""Many fits on a cluster of processes: as by SciPy, traced once by each worker, also where a worker dies."""

import importlib.util
import os
import pathlib

import numpy as np
import pytest
from scipy import optimize

from tests.processes import ROOT

pytestmark = pytest.mark.nightly
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


def test_a_worker_that_dies_costs_its_chunk_alone(tmp_path):
    zarr, distributed = pytest.importorskip("zarr"), pytest.importorskip("distributed")
    spec = importlib.util.spec_from_file_location("fits", ROOT / "examples" / "fits_on_a_cluster.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
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
