"""Fit millions of curves on a cluster: Dask hands chunks of a Zarr array to its workers, and writes what they find.

    python examples/fits_on_a_cluster.py [--fits N] [--chunk N] [--workers N] [--folder DIR] [--scheduler ADDRESS]

Needs what `pip install 'dask[array]' distributed zarr` brings. Without an address the cluster is one of processes on
this machine. Each row of the array is a decay, and a fit by itself. Each worker traces once, for all of its chunks. If
a worker dies, Dask starts it again: its chunk is computed once more, the others are not.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib
import shutil
import time

import numpy as np

TIMES = np.linspace(0.0, 4.0, 25)
COLUMNS = ("amplitude", "rate", "error of the amplitude", "error of the rate", "success")


def residuals(b, measured):
    """Return what is left of each curve `[n, 25]` by parameters `[n, 2]`."""
    import tensorflow as tf  # in the workers alone: whoever hands out chunks needs no TensorFlow

    return b[:, :1] * tf.exp(-b[:, 1:] * TIMES) - measured


def problem():
    """Return the `LeastSquaresProblem` of this worker, and its variable: made once, for chunks of any size."""
    from distributed import get_worker

    worker = get_worker()
    if not hasattr(worker, "problem"):
        import tensorflow as tf

        import tfjac

        b = tf.Variable(np.ones([1, 2]), shape=[None, 2])
        worker.problem = tfjac.LeastSquaresProblem(residuals, b, batch_dims=1), b
    return worker.problem


def fitted(measured: np.ndarray) -> np.ndarray:
    """Return a row of `COLUMNS` for each curve of a chunk `[n, 25]`."""
    chunk, b = problem()
    b.assign(np.ones([len(measured), 2]))
    result = chunk.solve(np.asarray(measured, "float64"))
    return np.concatenate([result.x, result.standard_errors(), np.reshape(result.success, [-1, 1])], axis=1)


def measure(folder: pathlib.Path, fits: int, chunk: int) -> None:
    """Write decays with noise to `measured`, and what they were made of to `truth`."""
    import dask.array as da

    def made(block: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(int(block[0, 0]))
        truth = rng.uniform(0.5, 2.0, size=(len(block), 2))
        signal = truth[:, :1] * np.exp(-truth[:, 1:] * TIMES)
        return np.concatenate([truth, signal + 0.02 * rng.normal(size=signal.shape)], axis=1).astype("float32")

    rows = da.arange(fits, chunks=chunk)[:, None]
    all_of_it = rows.map_blocks(made, dtype="float32", chunks=(rows.chunks[0], (2 + len(TIMES),))).persist()
    all_of_it[:, :2].rechunk((chunk, 2)).to_zarr(str(folder / "truth.zarr"))
    all_of_it[:, 2:].rechunk((chunk, len(TIMES))).to_zarr(str(folder / "measured.zarr"))


def write(found: np.ndarray, target: str, first: int) -> int:
    """Write the rows of a chunk to their place in a Zarr array, and return how many there are."""
    import zarr

    zarr.open_array(target, mode="r+")[first : first + len(found)] = found
    return len(found)


def fit(client, source: pathlib.Path, target: pathlib.Path, function=fitted) -> None:
    """Fit each row of a Zarr array, chunk by chunk, and write the columns to another."""
    import dask
    import dask.array as da
    import zarr
    from distributed import as_completed

    measured = da.from_zarr(str(source))
    (rows, _), (chunk, _) = measured.shape, measured.chunksize
    zarr.create_array(str(target), shape=(rows, len(COLUMNS)), chunks=(chunk, len(COLUMNS)), dtype="float64")
    chunks = (measured.chunks[0], (len(COLUMNS),))
    found = measured.map_blocks(function, dtype="float64", chunks=chunks, meta=np.empty((0, 0))).to_delayed().ravel()
    written = [dask.delayed(write)(block, str(target), k * chunk) for k, block in enumerate(found)]
    for future in as_completed(client.compute(written)):
        future.result()
        future.release()  # what is written need not be computed again if the worker dies


def main(arguments: list[str] | None = None) -> float:
    """Return the share of parameters within one standard error of the truth: 0.672 by Student's t with 23 degrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=1_000_000)
    parser.add_argument("--chunk", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("fits_on_a_cluster"), help="is emptied")
    parser.add_argument("--scheduler", help="the address of a cluster that runs; the folder is one that it can reach")
    asked = parser.parse_args(arguments)

    import zarr
    from distributed import Client, LocalCluster

    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    local = {"n_workers": asked.workers, "threads_per_worker": 1, "dashboard_address": None}
    with Client(asked.scheduler or LocalCluster(**local)) as client:
        measure(asked.folder, asked.fits, asked.chunk)
        begin = time.perf_counter()
        fit(client, asked.folder / "measured.zarr", asked.folder / "fits.zarr")
        seconds = time.perf_counter() - begin
    found, truth = (zarr.open_array(asked.folder / f"{name}.zarr", mode="r")[:] for name in ("fits", "truth"))
    covered = float(np.mean(np.abs(found[:, :2] - truth) < found[:, 2:4]))
    print(f"{asked.fits:,} fits in {seconds:.0f} s, {np.mean(found[:, 4]):.4f} of them with success")
    print(f"{covered:.3f} of the parameters are within one standard error of the truth: 0.672 by Student's t")
    return covered


if __name__ == "__main__":
    main()
