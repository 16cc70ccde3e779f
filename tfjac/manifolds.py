"""Manifolds for variables of `least_squares`: rotations, directions, and what else a user defines."""

from tfjac.optimizers.conditions.manifolds import Manifold, Quaternion, RotationVector, UnitSphere

__all__ = ["Manifold", "Quaternion", "RotationVector", "UnitSphere"]
