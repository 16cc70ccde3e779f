"""Random programs against one backward pass per row: what nobody thought of."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time
from tests.jacobians.random_programs import RandomProgram


@pytest.mark.parametrize("seed", range(16))
def test_random_program(seed):
    program = RandomProgram(seed)
    expected = rows_one_at_a_time(program, program.x, program.variables)
    open_batch = [tf.TensorSpec([None, *program.x.shape[1:]], tf.float64)]

    @tf.function(input_signature=open_batch if seed % 2 else None, jit_compile=seed % 8 == 0)
    def analyse(x):
        y = program(x)
        operator = tfjac.jacobian_operator(y, program.variables)
        return tfjac.per_example_jacobian(y, program.variables), operator.gram(), operator.kernel()

    jacobians, gram, kernel = analyse(program.x)
    for found, rows in zip(jacobians, expected):
        rows = rows.reshape(found.shape)
        np.testing.assert_allclose(found, rows, rtol=1e-8, atol=1e-10, err_msg="\n".join(program.text))
    dense = np.concatenate([rows.reshape(kernel.shape[0], -1) for rows in expected], axis=1)
    np.testing.assert_allclose(gram, dense.T @ dense, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(kernel, dense @ dense.T, rtol=1e-8, atol=1e-10)
