"""The face of the optimizer, and the contracts between its parts."""

import ast
import inspect
import pathlib

import pytest

import tfjac
from tfjac.linear import contracts
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
    for name, member in vars(contracts.JacobianBlock).items():
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
    assert len(classes) >= 3
    for each in classes:
        assert not each.__abstractmethods__, f"{each.__qualname__} lacks {sorted(each.__abstractmethods__)}"


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_what_is_missing_shows_where_an_object_is_made(contract):
    incomplete = type(contract)("Incomplete", (contract,), {})
    with pytest.raises(TypeError, match="abstract"):
        incomplete()
