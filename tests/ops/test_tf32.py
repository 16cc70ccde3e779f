"""float32 means float32, also where TensorFlow would round factors to TF32: a GPU that is made up, and its rounding."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tests.fixtures import ON_GPU
from tests.ops.factors import Problem
from tfjac import ops
from tfjac.ops import _gpu, _library, _products

LARGEST = np.finfo(np.float32).max
SMALLEST = np.finfo(np.float32).tiny


pytestmark = pytest.mark.skipif(ON_GPU, reason="a GPU is simulated")


@pytest.fixture
def gpu(monkeypatch):
    """A GPU in TensorFlow's eyes, on which graphs may be placed."""
    device = types.SimpleNamespace(name="/physical_device:GPU:0")
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: [device] if kind == "GPU" else [])


@pytest.fixture(params=["rounded", "truncated"])
def tensor_cores(request, gpu, monkeypatch):
    """Eager products as such a GPU computes them: of factors in TF32, rounded or truncated, and added up in float32."""

    def einsum(equation, *factors):
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = [as_tf32(x.numpy(), request.param).astype(np.float64) for x in factors]
            return tf.constant(np.einsum(equation, *rounded).astype(np.float32))

    def matmul(x, y, transpose_a=False, transpose_b=False):
        return einsum(f"...{'ji' if transpose_a else 'ij'},...{'kj' if transpose_b else 'jk'}->...ik", x, y)

    def matvec(x, y, transpose_a=False):
        return einsum(f"...{'ji' if transpose_a else 'ij'},...j->...i", x, y)

    monkeypatch.setattr(_gpu, "runs_on_cpu", lambda: False)
    monkeypatch.setattr(tf, "einsum", einsum)
    monkeypatch.setattr(tf.linalg, "matmul", matmul)
    monkeypatch.setattr(tf.linalg, "matvec", matvec)


def as_tf32(x, how):
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    to_even = 0xFFF + ((bits >> 13) & 1) if how == "rounded" else 0
    kept = ((bits + to_even) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(x), kept, x)


def test_a_product_is_as_exact_as_float32(tensor_cores, rng, monkeypatch):
    x, y = (rng.standard_normal(2000).astype(np.float32) for _ in range(2))
    exact = np.multiply.outer(x.astype(np.float64), y)
    product = _products.einsum("i,j->ij", tf.constant(x), tf.constant(y))
    assert np.abs(product / exact - 1).max() < 2.0**-20
    monkeypatch.setenv("TFJAC_TF32", "1")
    rounded = _products.einsum("i,j->ij", tf.constant(x), tf.constant(y))
    assert np.abs(rounded / exact - 1).max() > 2.0**-11


@pytest.mark.parametrize("shape, transposed", [((7, 5, 6), ""), ((5, 6), "a"), ((3, 5, 6), "b")], ids=str)
def test_matrices(shape, transposed, tensor_cores, rng):
    x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    left, right = (np.swapaxes(each, -1, -2) if "a" in transposed else each for each in (x, y))
    y = y if "b" in transposed else np.swapaxes(y, -1, -2) if "a" not in transposed else y
    product = _products.matmul(
        tf.constant(x), tf.constant(y), transpose_a="a" in transposed, transpose_b="b" in transposed
    )
    np.testing.assert_allclose(product, left.astype(np.float64) @ np.swapaxes(right, -1, -2), rtol=0, atol=2e-5)


def test_range(tensor_cores):
    """Infinity, NaN of any bits and the largest numbers come out as from float32; subnormal numbers may vanish."""
    nans = np.array([0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    large, small = [1e20, LARGEST, -LARGEST, 2.0**127, np.inf, -np.inf], [1e-20, SMALLEST]
    x = np.concatenate([np.array([0.0, -0.0, 1.0, 1.0003, -1 / 3, *large, *small], np.float32), nans])
    with np.errstate(invalid="ignore", over="ignore"):
        expected = np.multiply.outer(x, x)
    product = _products.einsum("i,j->ij", tf.constant(x), tf.constant(x))
    np.testing.assert_allclose(product, expected, rtol=2.0**-20, atol=SMALLEST)
    subnormal = _products.einsum("i,j->ij", tf.constant([1e-40, -1e-44]), tf.constant([0.0, 1.0, 1e20]))
    np.testing.assert_allclose(subnormal, [[0, 0, 1e-20], [0, 0, -1e-24]], rtol=0.01, atol=2e-20)


def twins(dtype):
    """Results of the twins, and gradients through them, for factors with one position and with several."""
    rng, found = np.random.default_rng(3), []
    for positions in (1, 3):
        problem = Problem(rng, 6, 2, [(positions, 2, 5, 4, "ogi"), (positions, 1, 3, 2, "gio")])
        (a, d), layouts, r = problem.tensors(dtype), problem.layouts, tf.ones([6, 2], dtype)
        with ops.implementation("twin"), tf.GradientTape() as tape:
            tape.watch([a, d])
            j = ops.jacobian_rows(a, d, layouts)
            results = [j, *ops.jacobian_gram(a, d, layouts, r), ops.jacobian_kernel(a, d), ops.jacobian_row_norms(a, d)]
            results += ops.example_grams(j, r)
            total = tf.add_n([tf.reduce_sum(tf.square(each)) for each in results])
        found += results + tape.gradient(total, [*a, *d])
    columns, group = tf.constant([[0, 1, 2]] * 6), tf.constant([0, 1, 2] * 2)
    matrix, vector = tf.eye(2, batch_shape=[3], dtype=dtype), tf.ones([3, 2], dtype)
    with ops.implementation("twin"):
        found += ops.schur_complement(j[:, :, :3], columns, j[:, :, 3:5], group, matrix, vector, size=4)[:2]
    return [x.numpy() for x in found]


@pytest.fixture(scope="module")
def expected():
    """Give what `twins` does in float64, before anything is made up."""
    return twins(tf.float64)


def worst(found, expected):
    return max(np.abs(x - y).max() / np.abs(y).max() for x, y in zip(found, expected))


@pytest.mark.by_day(one_in=2)
def test_every_twin_and_its_gradient(expected, tensor_cores, monkeypatch):
    assert worst(twins(tf.float32), expected) < 1e-5
    monkeypatch.setattr(_products, "_split", lambda x: (x, tf.zeros_like(x)))  # products in TF32, with gradients
    assert worst(twins(tf.float32), expected) > 1e-4


def test_symmetric_to_the_last_bit(tensor_cores, rng):
    x = tf.constant(rng.standard_normal((40, 9)).astype(np.float32))
    gram = _products.matmul(x, x, transpose_a=True)
    np.testing.assert_array_equal(gram, tf.transpose(gram))


def test_xla_does_not_undo_the_split(rng, gpu):
    x, y = (tf.constant(rng.standard_normal(64).astype(np.float32)) for _ in range(2))
    product = tf.function(lambda x, y: _products.einsum("i,j->ij", x, y), jit_compile=True)
    exact = np.multiply.outer(x.numpy().astype(np.float64), y)
    assert np.abs(product(x, y) / exact - 1).max() < 2.0**-20
    assert products_in(product.get_concrete_function(x, y)) == 3


def products_in(traced):
    return sum(op.type == "Einsum" for op in traced.graph.get_operations())


def traced(dtype=tf.float32, device=None):
    x = tf.TensorSpec([3, 4], dtype)

    def compute(x):
        with tf.device(device):
            return _products.einsum("ij,kj->ik", x, x)

    return products_in(tf.function(compute).get_concrete_function(x))


def test_split_only_where_tensorflow_would_round(gpu, monkeypatch):
    assert traced() == 3
    assert traced(tf.float64) == traced(device="CPU:0") == 1
    monkeypatch.setenv("TFJAC_TF32", "1")
    assert traced() == 1
    monkeypatch.setenv("TFJAC_TF32", "0")
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        assert traced() == 1
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(True)


def test_nothing_changes_without_a_gpu():
    assert traced() == 1


@pytest.mark.parametrize("value, said", [(None, 0), ("0", 0), ("1", 1)])
def test_the_cuda_library_is_told(value, said, monkeypatch):
    told = []
    monkeypatch.delenv("TFJAC_TF32", raising=False) if value is None else monkeypatch.setenv("TFJAC_TF32", value)
    monkeypatch.setattr(_gpu.ctypes, "CDLL", lambda path: types.SimpleNamespace(tfjac_cuda_use_tf32=told.append))
    _gpu.tell_tf32("libtfjac_cuda.so")
    assert told == [said]


def test_a_library_that_knows_no_tf32_is_not_told(monkeypatch):
    monkeypatch.setattr(_gpu.ctypes, "CDLL", lambda path: types.SimpleNamespace())
    _gpu.tell_tf32("libtfjac_cuda.so")


def test_a_value_that_it_may_not_have(monkeypatch):
    monkeypatch.setenv("TFJAC_TF32", "yes")
    with pytest.raises(ValueError, match=r"TFJAC_TF32 must be one of 0, 1.* Received: 'yes'"):
        _library._check_environment()
