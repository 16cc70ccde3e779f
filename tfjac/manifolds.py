"""Manifolds for variables of `least_squares`: rotations, directions, poses, and what else a user defines."""

from tfjac.objective.conditions.manifolds import SE2, Manifold, Quaternion, RotationVector, UnitSphere

__all__ = ["SE2", "Manifold", "Quaternion", "RotationVector", "UnitSphere"]
