"""One process of the sweep: reads the names of samples, and writes what became of each check, one JSON line each.

TensorFlow may abort or hang this process; `tests.sweep.run` then notes at which check, and starts another.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as on most processors, whatever this one is

import tensorflow as tf

import tests.sweep.package_checks  # noqa: F401 (more checks)
from tests.sweep.checks import CHECKS, DIFFERENCES, Maps, error_between
from tests.sweep.op_types import op_types
from tests.sweep.samples import SAMPLES

REPLY = "sweep: "


def outcome_of(name, maps):
    """Run a check; return what is written about it."""
    try:
        found, expected, tolerance = CHECKS[name](maps)
    except Exception as error:  # whatever TensorFlow raises is an honest answer
        return {"outcome": "raises", "message": f"{type(error).__name__}: {_first_line(error)}"}
    error = error_between(found, expected)
    if error <= tolerance:
        return {"outcome": "right"}
    return {"outcome": "wrong", "error": "not finite" if error == float("inf") else float(f"{error:.1g}")}


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if any(word in line.lower() for word in ("no gradient", "not defined", "error"))]
    return (wanted or lines or [""])[0][:160]


def main():
    tf.get_logger().setLevel("ERROR")
    for line in sys.stdin:
        name, *checks = json.loads(line)
        maps = Maps(SAMPLES[name])
        if "ops" in checks:
            reply("ops", op_types(maps))
        for each in checks:
            if each in CHECKS:
                random = maps.sample.random and (each in DIFFERENCES or each.startswith("package"))
                reply(each, {"outcome": "not asked"} if random else outcome_of(each, maps))
        reply("end", None)


def reply(name, result):
    print(REPLY + json.dumps([name, result]), flush=True)


if __name__ == "__main__":
    main()
