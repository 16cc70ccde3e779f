"""What bad input gets: at trace time from the wrappers, and at run time from the native ops themselves."""

import pytest
import tensorflow as tf

from tfjac import ops
from tfjac.ops import _library

A, D = tf.ones([3, 1, 1, 2]), tf.ones([3, 2, 1, 1, 4])
WRAPPED = {
    "no_list": (TypeError, "`a` must be a list.*Received", lambda: ops.jacobian_rows(A, [D], ["gio"])),
    "lengths": (ValueError, "same number.*Received: 2, 1 and 1", lambda: ops.jacobian_rows([A, A], [D], ["gio"])),
    "nothing": (ValueError, "at least one", lambda: ops.jacobian_kernel([], [])),
    "layout": (ValueError, "permutation of 'gio'.*Received: 'gii'", lambda: ops.jacobian_rows([A], [D], ["gii"])),
    "rank": (ValueError, r"rank 4 .*Received: shapes \(3, 1, 2\)", lambda: ops.jacobian_kernel([A[:, 0]], [D])),
    "n": (ValueError, r"n.*Received: shapes \(2, 1, 1, 2\) and \(3,", lambda: ops.jacobian_kernel([A[:2]], [D])),
    "m": (ValueError, "number m of residuals", lambda: ops.jacobian_row_norms([A, A], [D, D[:, :1]])),
    "t": (ValueError, "agree in t and g", lambda: ops.jacobian_row_norms([tf.ones([3, 2, 1, 2])], [D])),
    "dtypes": (TypeError, r"\['float32', 'float64'\]", lambda: ops.jacobian_kernel([A], [tf.cast(D, tf.float64)])),
    "dtype": (TypeError, "float32, or all float64", lambda: ops.jacobian_kernel([tf.cast(A, tf.int32)], [D])),
    "residual": (
        ValueError,
        r"`residual` must be \[n,m\].*\(3, 3\)",
        lambda: ops.jacobian_gram([A], [D], ["gio"], tf.ones([3, 3])),
    ),
    "residual_dtype": (
        TypeError,
        "dtype of the factors",
        lambda: ops.jacobian_gram([A], [D], ["gio"], tf.ones([3, 2], tf.float64)),
    ),
    "solve_shapes": (
        ValueError,
        r"matrix \[p,p\].*Received: \(3, 2\), \(3,\), \(3,\), \(\)",
        lambda: ops.damped_solve(tf.ones([3, 2]), tf.ones([3]), tf.ones([3]), tf.constant(1.0)),
    ),
    "solve_dtypes": (
        TypeError,
        "must all be float32",
        lambda: ops.damped_solve(tf.eye(3), tf.ones([3]), tf.ones([3]), tf.constant(1.0, tf.float64)),
    ),
}


@pytest.mark.parametrize("case", WRAPPED)
def test_wrappers(case, implementation):
    error, message, call = WRAPPED[case]
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def raw(name):
    return getattr(_library.load().module, f"tfjac_{name}")


NATIVE = {
    "rank_of_a": (r"ranks 4 and 5.*a \[3,1,2\], d \[3,2,1,1,4\]", lambda: raw("jacobian_kernel")(a=[A[:, 0]], d=[D])),
    "rank_of_d": (r"a \[3,1,1,2\], d \[3,2,1,4\]", lambda: raw("jacobian_row_norms")(a=[A], d=[D[:, :, 0]])),
    "n": (r"same n.*a \[2,1,1,2\], d \[3,2,1,1,4\]", lambda: raw("jacobian_kernel")(a=[A[:2]], d=[D])),
    "n_of_factors": (
        r"in factor 1: a \[2,1,1,2\], d \[2,2,1,1,4\]; in the first factor: d \[3,2,1,1,4\]",
        lambda: raw("jacobian_rows")(a=[A, A[:2]], d=[D, D[:2]], layouts=["gio"] * 2),
    ),
    "m": ("same m", lambda: raw("jacobian_rows")(a=[A, A], d=[D, D[:, :1]], layouts=["gio"] * 2)),
    "t": (r"agree in t and g.*a \[3,2,1,2\]", lambda: raw("jacobian_kernel")(a=[tf.ones([3, 2, 1, 2])], d=[D])),
    "layout": (r"Received: \[giq\]", lambda: raw("jacobian_rows")(a=[A], d=[D], layouts=["giq"])),
    "long_layout": ("Received", lambda: raw("jacobian_gram")(a=[A], d=[D], residual=[], layouts=["giog"])),
    "layouts": (r"1 factors. Received: \[\]", lambda: raw("jacobian_rows")(a=[A], d=[D], layouts=[])),
    "residual": (
        r"residual \[3,3\], n = 3 and m = 2",
        lambda: raw("jacobian_gram")(a=[A], d=[D], residual=[tf.ones([3, 3])], layouts=["gio"]),
    ),
    "residuals": (
        "no tensor or one. Received: 2",
        lambda: raw("jacobian_gram")(a=[A], d=[D], residual=[tf.ones([3, 2])] * 2, layouts=["gio"]),
    ),
    "solve": (
        r"matrix \[3,2\], rhs \[3\], scaling \[4\], damping \[1,1\]",
        lambda: raw("damped_solve")(
            matrix=tf.ones([3, 2]), rhs=tf.ones([3]), scaling=tf.ones([4]), damping=tf.ones([1, 1])
        ),
    ),
    "columns": (
        "at most .* columns",
        lambda: raw("jacobian_kernel")(a=[tf.ones([0, 1, 1, 2**40])], d=[tf.ones([0, 1, 1, 1, 2**40])]),
    ),
    "bytes": (
        "",
        lambda: raw("jacobian_gram")(
            a=[tf.ones([0, 1, 1, 2**31])], d=[tf.ones([0, 1, 1, 1, 1])], residual=[], layouts=["gio"]
        ),
    ),
    "elements": (
        "",
        lambda: raw("jacobian_gram")(
            a=[tf.ones([0, 1, 1, 2**40])], d=[tf.ones([0, 1, 1, 1, 1])], residual=[], layouts=["gio"]
        ),
    ),
}


@pytest.mark.parametrize("case", NATIVE)
def test_native_ops_check_for_themselves(case, need_native):
    """What an edited GraphDef may hold, or a call past the wrapper."""
    message, call = NATIVE[case]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s){message}"):
        call()
    compiled = tf.function(call, jit_compile=True, autograph=False)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):  # the latter from the shape function
        compiled()


OPEN = {
    "rows": lambda a, d, r: ops.jacobian_rows(a, d, ["gio"] * 2),
    "gram": lambda a, d, r: ops.jacobian_gram(a, d, ["gio"] * 2, r),
    "kernel": lambda a, d, r: ops.jacobian_kernel(a, d),
    "norms": lambda a, d, r: ops.jacobian_row_norms(a, d),
}
UNLIKE = {  # what broadcasts, or can be reshaped, must not pass
    "n": (A[:1], D, A, D, [3, 2]),
    "n_of_d": (A, D[:1], A, D, [3, 2]),
    "n_of_factors": (A[:1], D[:1], A, D, [1, 2]),
    "m": (A, D, A, D[:, :1], [3, 2]),
    "n_and_m": (A, D, tf.ones([2, 1, 1, 2]), tf.ones([2, 3, 1, 1, 4]), [3, 2]),
    "t": (A, tf.repeat(D, 2, axis=2), A, D, [3, 2]),
    "g": (A, tf.repeat(D, 2, axis=3), A, D, [3, 2]),
    "residual": (A, D, A, D, [1, 2]),
}


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_shapes_found_wrong_at_run_time(jit_compile, implementation):
    def checked(op):
        signature = [*2 * (tf.TensorSpec([None] * 4), tf.TensorSpec([None] * 5)), tf.TensorSpec([None, None])]

        @tf.function(jit_compile=jit_compile, input_signature=signature)
        def function(a, d, a_too, d_too, r):
            return op([a, a_too], [d, d_too], r)

        return function

    for name, function in {name: checked(op) for name, op in OPEN.items()}.items():
        function(A, D, A, D, tf.ones([3, 2]))
        for what, (*factors, residual) in UNLIKE.items():
            if what == "residual" and name != "gram":
                continue
            with pytest.raises(tf.errors.InvalidArgumentError):
                function(*factors, tf.ones(residual))
                pytest.fail(f"{name} took factors that differ in {what}")


def test_shapes_in_the_message(need_native):
    function = tf.function(lambda a, d: ops.jacobian_kernel([a], [d])).get_concrete_function(
        tf.TensorSpec([None] * 4), tf.TensorSpec([None] * 5)
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[2,1,1,2\].*\[3,2,1,1,4\]"):
        function(A[:2], D)


def test_implementation_names():
    with pytest.raises(ValueError, match="Received: 'fast'"), ops.implementation("fast"):
        pass
