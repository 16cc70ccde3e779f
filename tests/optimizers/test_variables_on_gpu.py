"""What XLA compiles for a GPU reaches variables on that GPU alone; TensorFlow keeps some dtypes on the CPU.

No GPU is needed.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import tfjac


def dtypes_on_gpu() -> set:
    """Read in TensorFlow's registry, for a build with CUDA, which dtypes a variable on a GPU can be assigned."""
    found = set()
    for kernel in kernels.get_registered_kernels_for_op("AssignVariableOp").kernel:
        if kernel.device_type == "GPU":
            for constraint in kernel.constraint:
                found |= {tf.as_dtype(number) for number in constraint.allowed_values.list.type}
    return found


OPTIMIZERS = {
    "as it is": tfjac.LevenbergMarquardt,
    "alone": lambda: tfjac.LevenbergMarquardt(memory=None),
    "batches": lambda: tfjac.LevenbergMarquardt(memory=4),
    "geodesic": lambda: tfjac.LevenbergMarquardt(acceleration="geodesic"),
    "Bayesian": lambda: tfjac.LevenbergMarquardt(regularization="bayesian"),
    "cg": lambda: tfjac.LevenbergMarquardt(solver="cg"),
    "several steps": lambda: tfjac.LevenbergMarquardt(steps_per_batch=3),
    "private": lambda: tfjac.privacy.DPOptimizer(keras.optimizers.Adam(), 1.0, 1.1, batch_size=8),
}


@pytest.mark.by_day(one_in=16)
@pytest.mark.parametrize("width", [4, 300])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_variable_can_be_on_a_gpu(name, width):
    """Of few weights and of so many that rows are remembered in place of their sum."""
    allowed = dtypes_on_gpu()
    if not allowed:
        pytest.skip("this TensorFlow was built without CUDA")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(width, "tanh"), keras.layers.Dense(1)])
    optimizer = OPTIMIZERS[name]()
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(np.ones((8, 8), "float32"), np.ones((8, 1), "float32"), batch_size=8, verbose=0)
    names = {variable.path: tf.as_dtype(variable.dtype) for variable in optimizer.variables}
    assert len(names) > 1 and {path for path, dtype in names.items() if dtype not in allowed} == set()
