"""Influences by the curvature of the loss: where the weights go if an example is left out."""

from __future__ import annotations

import functools

import numpy as np

from tfjac.influence.data import TrainingData
from tfjac.influence.sides import Side
from tfjac.laplace.curvature import ELEMENTS, chunks, size_of
from tfjac.types import Array, Nest, TensorLike


class CurvatureInfluence:
    """What leaving out each training example does, by the Gauss-Newton curvature of the loss. Made by `influence`.

    With n training examples and P = Σ JᵀHJ + nλI, the weights move by P⁻¹g where an example with gradient g is left
    out: "first_order", and influences of several examples add up. By "newton" the curvature of the example leaves P,
    too. It is about the weights that the network had then: after further training it refuses to answer.

    Attributes:
        method: `"weights"`, `"examples"`, `"cg"` or `"ekfac"`.
        removal: `"newton"` or `"first_order"`.
        damping: λ.
        num_parameters, num_examples, num_outputs: p, n, m.
    """

    def __init__(self, data: TrainingData, side: Side, method: str, removal: str) -> None:
        """Take what `influence` found."""
        self._data, self._side, self._curvature = data, side, data.curvature
        self.method, self.removal, self.damping = method, removal, float(side.damping)
        self.num_parameters, self.num_outputs = data.curvature.num_parameters, data.curvature.num_outputs
        self.num_examples = len(data.labels)

    def on_losses(self, x: Nest[TensorLike], y: TensorLike) -> Array:
        """Return the change of the loss of each of t examples as each training example is left out, `[t, n]`.

        Positive: the training example helps. Negative: it harms. By "first_order" it is the slope of the loss times
        the change of the outputs, g*ᵀP⁻¹g; by "newton" it is the loss at the changed outputs less the loss.

        Cost: a backward pass over x, and one over the training examples; by "newton" one for each output, and
        t·m·p² or t·n·m² multiply-adds.
        """
        x, latent, labels, counts = self._data.others(x, y)
        if self.removal == "first_order":
            slopes = self._data.loss.slopes(latent, labels, counts)
            return self._side.moved(x, slopes[:, None], self._forces)[:, 0]
        found, start = [], 0
        for part in self._parts(x):
            moved = self._moved(part)
            at = slice(start, start + len(moved))
            start += len(moved)
            before, given = latent[at, None], (labels[at, None], counts[at, None])
            found.append(self._data.loss.values(before + moved, *given) - self._data.loss.values(before, *given))
        return np.concatenate(found)

    def on_outputs(self, x: Nest[TensorLike]) -> Array:
        """Return the change of the outputs, or logits, of t inputs as each training example is left out.

        Of shape `[t, n, *outputs]`. Cost: as `on_losses`.
        """
        x = self._data.others(x)[0]
        return np.concatenate([self._moved(part) for part in self._parts(x)])

    def self_influence(self) -> Array:
        """Return the change of the loss of each training example as it is left out itself, `[n]`.

        Large values tell examples that no other explains, such as wrong labels. By "first_order" it is gᵀP⁻¹g; by
        "newton" the change of the loss to second order in that of the outputs, which is all of it for squares.

        Cost: n·p² multiply-adds, by "newton" m·n·p²; by examples (n·m)³/3; by conjugate gradients n solutions, by
        "newton" n·m.
        """
        self._curvature.check_weights()
        if self.removal == "first_order":
            return self._side.own()
        forces, moved = self._side.forces, np.einsum("nij,nj->ni", self._blocks, self._forces)
        return np.sum(forces * moved, axis=1) + np.einsum("ni,nij,nj->n", moved, self._side.metrics, moved) / 2

    def leverages(self) -> Array:
        """Return tr J P⁻¹ JᵀH of each training example, `[n]`: its share of the parameters that the data determine.

        Between zero and the number of outputs. Their sum is the number of effective parameters. For a linear model
        that is trained by squares these are the diagonal of the hat matrix. Cost: as `self_influence` by "newton".
        """
        self._curvature.check_weights()
        return np.einsum("nij,nji->n", self._side.metrics, self._blocks)

    @functools.cached_property
    def _blocks(self):
        return self._side.blocks()

    @functools.cached_property
    def _forces(self):
        if self.removal == "first_order":
            return self._side.forces
        matrices = np.eye(self.num_outputs) - self._side.metrics @ self._blocks
        if np.min(np.linalg.svd(matrices, compute_uv=False)) <= 100 * self._data.epsilon:
            raise ValueError(
                "An example has a leverage of one: without it the weights are not determined. Give a damping above "
                f"zero, or removal='first_order'. Received: damping {self.damping:.3g}"
            )
        return np.linalg.solve(matrices, self._side.forces[..., None])[..., 0]

    def _moved(self, x):
        """Return the change of z, `[t, n, *outputs]`."""
        tests = size_of(x)
        left = np.broadcast_to(np.eye(self.num_outputs), (tests, self.num_outputs, self.num_outputs))
        found = self._side.moved(x, left, self._forces)
        return found.transpose(0, 2, 1).reshape(tests, self.num_examples, *self._data.loss.outputs)

    def _parts(self, x):
        per_test = self.num_outputs * max(self.num_examples, self.num_parameters)
        return chunks(x, max(1, ELEMENTS // per_test))

    def __repr__(self):
        return (
            f"CurvatureInfluence({self.num_parameters:,} parameters, {self.num_examples:,} examples of "
            f"{self.num_outputs} outputs, by {self.method}, {self.removal}: damping {self.damping:.4g})"
        )
