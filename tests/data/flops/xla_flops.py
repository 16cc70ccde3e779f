"""What XLA's cost analysis says of products and convolutions, and of their gradients.

Run once, `python xla_flops.py > xla_flops.json`, with JAX 0.10.2 on a CPU; JAX is no dependency of the tests. XLA does
not count multiplications with padding, so all convolutions are unpadded.
"""

import json

import jax
import jax.numpy as jnp


def flops(function, *shapes):
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return jax.jit(function).lower(*arguments).cost_analysis()["flops"]


def convolution(strides=(1, 1), groups=1, dilation=(1, 1)):
    def function(x, w):
        return jax.lax.conv_general_dilated(
            x,
            w,
            strides,
            "VALID",
            rhs_dilation=dilation,
            feature_group_count=groups,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    return function


def transposed(x, w):
    """Keras' kernel is [height, width, out, in]."""
    return jax.lax.conv_transpose(
        x, w, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), transpose_kernel=True
    )


def volume(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1, 1), "VALID", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))


def attention(q, k):
    return jnp.einsum("btnh,bsnh->bnts", q, k)


CASES = {
    "matmul": (jnp.matmul, (5, 7), (7, 3)),
    "batch matmul": (jnp.matmul, (2, 5, 7), (2, 7, 3)),
    "attention scores": (attention, (2, 5, 3, 4), (2, 6, 3, 4)),
    "convolution": (convolution(), (2, 9, 8, 4), (3, 2, 4, 6)),
    "strided": (convolution((2, 3)), (2, 9, 8, 4), (3, 2, 4, 6)),
    "dilated": (convolution(dilation=(2, 2)), (2, 9, 8, 4), (3, 2, 4, 6)),
    "grouped": (convolution(groups=2), (2, 9, 8, 4), (3, 2, 2, 6)),
    "depthwise": (convolution(groups=4), (2, 9, 8, 4), (3, 2, 1, 8)),
    "transposed": (transposed, (2, 5, 4, 3), (2, 2, 6, 3)),
    "volume": (volume, (2, 6, 5, 4, 3), (2, 3, 2, 3, 4)),
}


def counts(function, x, w):
    y = jax.eval_shape(function, *(jax.ShapeDtypeStruct(s, jnp.float32) for s in (x, w))).shape
    zero_x, zero_w = jnp.zeros(x), jnp.zeros(w)
    return {
        "forward": flops(function, x, w),
        "by x": flops(lambda d, w: jax.linear_transpose(lambda x: function(x, w), zero_x)(d)[0], y, w),
        "by w": flops(lambda d, x: jax.linear_transpose(lambda w: function(x, w), zero_w)(d)[0], y, x),
        "x": x,
        "w": w,
    }


def main():
    found = {name: counts(*case) for name, case in CASES.items()}
    print(json.dumps({"source": f"XLA's cost analysis through JAX {jax.__version__}, CPU", "counts": found}, indent=1))


if __name__ == "__main__":
    main()
