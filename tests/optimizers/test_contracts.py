"""The face of the optimizer, and the contracts between its parts."""

import ast
import inspect
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.linear import contracts
from tfjac.linear.columns import Columns
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.model import Frame, StackedJacobian, Units
from tfjac.linear.model.free import Mask
from tfjac.linear.model.plane import PriorBelow
from tfjac.linear.model.right_factor import BlockTimes, RowsTimes, Selection
from tfjac.steps.objective import Objective

ROOT = pathlib.Path(tfjac.__file__).resolve().parent
INSIDE = ("steps", "drive", "keras")


def test_siblings_use_the_public_face_of_the_optimizer():
    public = set(tfjac.optimizers.__all__)
    for sibling in ("laplace", "influence", "parameters", "black_box", "flops", "interception", "explaining"):
        for path in (ROOT / sibling).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                assert not module.startswith(tuple(f"tfjac.{room}" for room in INSIDE)), f"{path} imports {module}"
                if module == "tfjac.optimizers":
                    assert {alias.name for alias in node.names} <= public, f"{path} imports what is not public"


def test_an_operator_is_a_block():
    """It belongs to a lower layer, which cannot name the contract."""
    for name, member in (vars(contracts.Jacobian) | vars(contracts.JacobianBlock)).items():
        if getattr(member, "__isabstractmethod__", False):
            assert hasattr(tfjac.JacobianOperator, name), name
            if inspect.isfunction(member):
                wanted = list(inspect.signature(member).parameters)
                given = list(inspect.signature(getattr(tfjac.JacobianOperator, name)).parameters)
                assert wanted == given[: len(wanted)], name


CONTRACTS = [Objective, contracts.LinearModel, contracts.JacobianRows, contracts.JacobianBlock]


def players(contract):
    """Return all classes that name a contract among their bases, but for other contracts."""
    found, pending = [], list(contract.__subclasses__())
    while pending:
        each = pending.pop()
        pending += each.__subclasses__()
        if each.__module__ not in (contracts.__name__, Objective.__module__):
            found.append(each)
    return found


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_whoever_plays_a_part_has_all_of_it(contract):
    classes = players(contract)
    assert len(classes) >= 2
    for each in classes:
        assert not each.__abstractmethods__, f"{each.__qualname__} lacks {sorted(each.__abstractmethods__)}"


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_what_is_missing_shows_where_an_object_is_made(contract):
    incomplete = type(contract)("Incomplete", (contract,), {})
    with pytest.raises(TypeError, match="abstract"):
        incomplete()


J = np.random.default_rng(0).normal(size=(4, 6))
COLUMNS, SPREAD = Columns([np.zeros(size) for size in (2, 1, 3)]), [0, 0, 1, 2, 2, 2]
PRIOR, METRIC, HELD = np.array([1.0, 3, 0, 2, 1, 4]), np.arange(1.0, 7), [2, 4]
FREE = 1.0 - np.isin(np.arange(6), HELD)
NORMALS = np.array([[1.0, 2, 3, -1, 0, 1], [0, 1, 0, 1, 5, 2]]) * FREE


def rows_of(*variables):
    factors = [DenseFactor(tf.constant(J[:, None, np.equal(SPREAD, k)])) for k in variables]
    operator = tfjac.JacobianOperator(factors, [factor.j.shape[2:] for factor in factors], 4, 1)
    block = BlockTimes(operator, Selection(list(variables), COLUMNS))
    return StackedJacobian([block], [4], COLUMNS, tf.float64)


def jacobians():
    """Pairs of rows of a Jacobian and their matrix."""
    across = NORMALS / np.sqrt(METRIC)
    tangents = (np.eye(6) - np.linalg.pinv(across) @ across) / np.sqrt(METRIC)[:, None]
    frame = Frame(tf.constant(NORMALS), tf.constant(METRIC), tf.constant(FREE))
    units = np.array([2.0, 1, 0.5])
    of_all, below = rows_of(0, 1, 2), np.concatenate([J, np.diag(PRIOR)])
    yield "selection", rows_of(0, 2), J * np.not_equal(SPREAD, 1)
    yield "units", of_all.in_units(Units(tf.constant(units), tf.constant(units[SPREAD]), (0, 2))), J * units[SPREAD]
    yield "mask", RowsTimes(of_all, Mask(tf.constant(FREE > 0))), J * FREE
    yield "prior", PriorBelow(of_all, tf.constant(PRIOR)), below
    yield "plane", RowsTimes(PriorBelow(of_all, tf.constant(PRIOR)), frame), below @ tangents


@pytest.mark.parametrize("case", [*jacobians()], ids=lambda case: case[0])
def test_changed_columns_are_the_product_of_two_matrices(case):
    name, jacobian, matrix = case
    u, v, scales = np.arange(1.0, len(matrix) + 1), np.arange(1.0, 7), np.array([2.0, 3, 5])
    norms = np.square(np.concatenate([J, np.diag(PRIOR)])) / METRIC if name == "plane" else np.square(matrix)
    gram, gradient = jacobian.gram_and_gradient(tf.constant(u))
    for given, expected in [
        (jacobian.to_dense(), matrix),
        (jacobian.matvec(tf.constant(v)), matrix @ v),
        (jacobian.adjoint(tf.constant(u)), u @ matrix),
        (gram, matrix.T @ matrix),
        (gradient, u @ matrix),
        (jacobian.column_norms_squared(), norms.sum(axis=0)),
        (jacobian.kernel(tf.constant(scales)), matrix * scales[SPREAD] @ matrix.T),
        (jacobian.weighted_kernel(tf.constant(v)), matrix * v @ matrix.T),
        (jacobian.cast(tf.float32).matvec(tf.constant(v, tf.float32)), matrix @ v),
    ]:
        tolerance = 1e-12 if given.dtype == tf.float64 else 1e-5
        np.testing.assert_allclose(given, expected, rtol=tolerance, atol=10 * tolerance)
    for own, columns in zip(jacobian.factors(), np.split(matrix, [2, 3], axis=1)):
        if own and name in ("selection", "units"):
            np.testing.assert_allclose(own[0].dense()[:, 0], columns)
