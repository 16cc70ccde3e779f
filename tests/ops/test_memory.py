"""The scratch memory of the native gram: little beside the Jacobian that it does not form."""

import pytest

from tests.memory import run_alone

SCRIPT = """
import itertools, json
import numpy as np
import tensorflow as tf
from tests.memory import peak_megabytes
from tfjac import ops

n, sizes, rng = 10_000, (8, 50, 50, 1), np.random.default_rng(0)


def measure(dtype):
    a, d = [], []
    for i, o in itertools.pairwise(sizes):
        cotangent = tf.constant(rng.standard_normal((n, 1, 1, 1, o)), dtype)
        a += [tf.constant(rng.standard_normal((n, 1, 1, i)), dtype), tf.ones([n, 1, 1, 1], dtype)]
        d += [cotangent, cotangent]
    first = [x[:50] for x in a], [x[:50] for x in d]
    small = ops.jacobian_gram(*first, ["gio"] * len(a))[0]
    before = peak_megabytes()
    gram = ops.jacobian_gram(a, d, ["gio"] * len(a))[0]
    result = gram.shape[0] ** 2 * dtype.size / 2**20
    return peak_megabytes() - before - result, n * gram.shape[0] * dtype.size / 2**20


print(json.dumps([measure(tf.float32), measure(tf.float64)]))  # a peak is that of all so far: the small one comes first
"""


@pytest.mark.by_day(None)
def test_gram_takes_less_than_a_twentieth_of_the_jacobian(need_native):
    for scratch, jacobian in run_alone(SCRIPT):
        assert -jacobian / 50 < scratch < jacobian / 20
