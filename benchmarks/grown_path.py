"""Victoria Park by one part after the other, as a car drives it: cost, steps and time after each.

python -m benchmarks.grown_path                                 # by the first 1,500, 3,000, 4,500, 6,000 and all
python -m benchmarks.grown_path --stages 1000 3000 5000 6969

All of the path at once, from odometry, has many minima. Which one is found depends on details of the method: the first
λ, the retraction, the factor. GTSAM ends at 1.053·10⁵, and the default here at 1.709·10⁵. If each part is solved before
the next is added, both end at 2,339.22, 45 times lower. `benchmarks/real_peers.py` has GTSAM's run.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

import tfjac
from benchmarks.real_problems import park

STAGES = (1500, 3000, 4500, 6000, 6969)


def grow(stages, max_steps=100, **options):
    """Yield the number of poses, the `LeastSquaresResult` and the seconds of each stage.

    Args:
        stages: how many poses there are in each.
        max_steps: of each.
        **options: of `least_squares`.
    """
    whole, poses, trees = park(), np.zeros([1, 3]), []
    for number in stages:
        began = time.perf_counter()
        part = whole.until(number)
        residuals, variables, conditions = part.problem(*part.start(poses, trees))
        result = tfjac.least_squares(residuals, variables, max_steps, **conditions, **options)
        poses, trees = result.x
        yield number, result, time.perf_counter() - began


def main():
    """Print a line for each stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", type=int, default=STAGES, help="how many poses there are in each")
    for number, result, seconds in grow(parser.parse_args().stages):
        cost, steps = float(result.cost), int(result.steps)
        print(f"{number} poses: cost {cost:.7g}, {steps} steps, {result.status.name}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
