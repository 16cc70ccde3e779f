"""Random programs against one backward pass per row: what was not thought of."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time
from tests.jacobians.random_programs import RandomProgram


@pytest.mark.by_day(one_in=12)
@pytest.mark.parametrize("seed", range(24))
def test_random_program(seed):
    check(seed)


def check(seed):
    """Compare what tfjac makes of the program of this number with the rows; the number says how it is traced."""
    program = RandomProgram(seed)
    expected = rows_one_at_a_time(program, program.x, program.variables)
    open_batch = [tf.TensorSpec([None, *program.x.shape[1:]], tf.float64)]
    chunk_size = 2 if seed % 5 == 0 else None
    called = tf.function(program, autograph=False) if seed % 3 == 0 else program

    @tf.function(input_signature=open_batch if seed % 2 else None, jit_compile=seed % 8 == 0, autograph=False)
    def analyse(x):
        y = called(x)
        operator = tfjac.jacobian_operator(y, program.variables)
        jacobians = tfjac.per_example_jacobian(y, program.variables, chunk_size=chunk_size)
        return jacobians, operator.gram(), operator.kernel(), operator.row_norms(), operator.column_norms()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a weight inside a custom gradient costs more
        jacobians, gram, kernel, row_norms, column_norms = analyse(program.x)
    dense = np.concatenate([rows.reshape(kernel.shape[0], -1) for rows in expected], axis=1)
    assert_close = lambda found, known: np.testing.assert_allclose(  # noqa: E731
        found, known, rtol=1e-8, atol=1e-9 * (1 + np.abs(dense).max() ** 2), err_msg="\n".join(program.text)
    )
    for found, rows in zip(jacobians, expected):
        assert_close(found, rows.reshape(found.shape))
    assert_close(gram, dense.T @ dense)
    assert_close(kernel, dense @ dense.T)
    assert_close(row_norms, np.linalg.norm(dense, axis=1))
    assert_close(column_norms, np.linalg.norm(dense, axis=0))
