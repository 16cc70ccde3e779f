"""Time of many fits against the number of devices that share them.

python -m benchmarks.shared_fits          # a few minutes
python -m benchmarks.shared_fits --quick  # does it work?

The peaks of `many_fits`, on one, two and three logical CPU devices of the same machine. These share its cores. In one
half of the cases every operation may take all of them, as it does where TensorFlow is left alone: what is seen then is
what cutting up and putting together cost. In the other half an operation has one thread, so that devices are to each
other as if each had a core of its own, as long as there are as many.

Each figure is of a process of its own: the median time of a call after the first, and the processor time that it took.
All are taken three times, and the fastest counts. The figures are kept in `benchmarks/results/shared_fits.json`.
"""

import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks import peak_fits, report
from benchmarks.processes import fastest, trained_alone

FITS = 20_000
DEVICES = (1, 2, 3)
THREADS = {"all": 0, "one": 1}
CALLS = 8
ROUNDS = 3


def train(fits, devices, threads):
    """Return the seconds of a call of so many fits on so many devices, with "all" or "one" of the threads for an op."""
    import tensorflow as tf

    from benchmarks.many_fits import tfjac_fits

    tf.config.threading.set_intra_op_parallelism_threads(THREADS[threads])
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * devices)
    fit = tfjac_fits(peak_fits.peaks(fits), devices=[f"CPU:{number}" for number in range(devices)])
    times = []
    for _ in range(CALLS):
        start = time.perf_counter(), time.process_time()
        cost = fit()
        times.append([time.perf_counter() - start[0], time.process_time() - start[1]])
    seconds, processor_seconds = np.median(times[1:], axis=0)
    return {
        "fits": fits,
        "devices": devices,
        "threads": threads,
        "first_call": times[0][0],
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "cost": float(np.sum(cost, dtype=np.float64)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few fits on one and two; results are not kept")
    parser.add_argument("--train", nargs=3, metavar=("FITS", "DEVICES", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        fits, devices, threads = options.train
        print(json.dumps(train(int(fits), int(devices), threads)))
        return
    fits, counts, rounds = (50, DEVICES[:2], 1) if options.quick else (FITS, DEVICES, ROUNDS)
    cases = [{"fits": fits, "devices": devices, "threads": threads} for threads in THREADS for devices in counts]
    runs = [[trained_alone("shared_fits", **case) for case in cases] for _ in range(rounds)]
    rows = [fastest(same, "seconds") for same in zip(*runs)]
    print("| fits | devices | threads of an op | seconds | processor seconds | first call |\n" + "| --- " * 6 + "|")
    for row in rows:
        figures = row.get("error") or "{seconds:.3g} | {processor_seconds:.3g} | {first_call:.3g}".format(**row)
        print(f"| {row['fits']} | {row['devices']} | {row['threads']} | {figures} |")
    if not options.quick:
        print(report.save_runs("shared_fits", __doc__.splitlines()[0], rows))


if __name__ == "__main__":
    main()
