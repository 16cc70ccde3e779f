"""The axes of the public options, and one combination of their values."""

from typing import NamedTuple

AXES = {
    "problem": ("wide", "tall", "tables", "rotations", "many"),
    "solver": ("auto", "cholesky", "kernel", "qr", "svd", "cg", "lsmr", "schur", "schur_cg", "sparse"),
    "damping": ("nielsen", "multiplicative", "trust_region", "radius"),
    "scaling": ("identity", "marquardt", "more", "auto"),
    "acceleration": ("none", "geodesic"),
    "loss": ("squares", "convex", "robust"),
    "condition": ("none", "bounds", "fixed", "prior", "equality", "manifold"),
    "execution": (
        "eager", "function", "xla", "resumed", "many_fits", "fit", "steps_per_batch", "summed_batches", "replicas",
    ),
    "batch": ("static", "open"),
    "dtype": ("float64", "float32"),
}  # fmt: skip
"""`execution`: least_squares called eagerly, inside of a `tf.function`, with `jit_compile=True`, resumed from a
checkpoint, with `batch_dims=1`; then `fit`, with its options, and under a strategy of two replicas."""

IN_FIT = ("fit", "steps_per_batch", "summed_batches", "replicas")
IN_LEAST_SQUARES = ("eager", "function", "xla", "resumed", "many_fits")


class Case(NamedTuple):
    """A value of each axis."""

    problem: str = "tall"
    solver: str = "cholesky"
    damping: str = "nielsen"
    scaling: str = "identity"
    acceleration: str = "none"
    loss: str = "squares"
    condition: str = "none"
    execution: str = "eager"
    batch: str = "static"
    dtype: str = "float64"

    def __str__(self):
        return "-".join(self)

    def has(self, **values):
        """Return whether each axis that is named has one of the values that are given for it."""
        return all(getattr(self, axis) in _listed(these) for axis, these in values.items())


def _listed(values):
    return (values,) if isinstance(values, str) else values


def is_meaningful(case):
    """Return whether there is such a thing at all: manifolds go with their problem, as do many fits.

    There is no sparse factorisation of thousands of weights that every example reads: it takes a minute.
    """
    if case.has(problem="wide", solver="sparse"):
        return False
    on_manifold, many = case.problem == "rotations", case.problem == "many"
    return on_manifold == (case.condition == "manifold") and many == (case.execution == "many_fits")
