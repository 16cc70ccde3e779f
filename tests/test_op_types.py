"""What is known of an op type stands in one place per layer. Read from the syntax tree, not the text."""

import ast
import collections
import pathlib
import re

import pytest
import tensorflow as tf

from tfjac.graph.examples.example_rules import CUSTOM
from tfjac.graph.facts import declare, facts_by_type

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tfjac"
LAYERS = {
    "graph": "graph",
    "jacobians/factors": "factors",
    "jacobians/sparsity": "sparsity",
    "jacobians/tangents": "tangents",
    "jacobians": "jacobians, besides",
    "flops": "flops",
    "interception": "interception",
    "explaining": "explaining",
    "explanations": "explanations",
    "black_box": "black_box",
}
"""Folders, and the layers that they are: the innermost folder of a file says which.

Optimizers are not counted: they match losses op by op, each part of them in its own way.
"""

HIDDEN = {"XlaDynamicUpdateSlice"}
"""Types of ops that TensorFlow has, but not among its raw ops."""


def is_op_type(word):
    return hasattr(tf.raw_ops, word) or word in HIDDEN


def op_types_named(path):
    """The op types that strings of a file name, several to a string or one, docstrings and annotations aside."""
    known, named = set(facts_by_type()) - {CUSTOM}, set()
    nodes = list(ast.walk(ast.parse(path.read_text())))
    annotations = {getattr(node, name, None) for node in nodes for name in ("returns", "annotation")}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in annotations:
            words = set(node.value.split())
            named |= words & known if all(map(is_op_type, words)) else set()
    return named


def layer_of(path):
    """The layer of a file, by its path within the package; None for the package itself."""
    folders = [parent.as_posix() for parent in pathlib.PurePosixPath(path).parents]
    return next((LAYERS[folder] for folder in folders if folder in LAYERS), None)


def modules_by_type():
    """For each layer a dict from op type to the modules that name it."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in sorted(ROOT.rglob("*.py")):
        within = path.relative_to(ROOT).as_posix()
        for op_type in op_types_named(path):
            found[layer_of(within)][op_type].add(within)
    return found


MODULES = modules_by_type()


ELSEWHERE = {}
"""Pairs of a layer and a set of op types that several of its modules must name, with the reason. There are none."""


@pytest.mark.parametrize("layer", sorted(set(LAYERS.values())))
def test_one_module_of_a_layer_names_an_op_type(layer):
    spread = {op_type: sorted(modules) for op_type, modules in MODULES[layer].items() if len(modules) > 1}
    assert set(spread) == ELSEWHERE.get(layer, set()), spread


def test_the_facts_are_where_they_are_looked_for():
    facts = {op_type: modules for op_type, modules in MODULES["graph"].items()}
    assert facts["MatMul"] == {"graph/op_facts/products.py"}
    assert facts["StridedSlice"] == {"graph/op_facts/slicing.py"}
    assert set(facts) == set(facts_by_type()) - {CUSTOM}
    assert all(module.startswith("graph/op_facts/") for modules in facts.values() for module in modules)


def test_every_type_is_one_of_tensorflow():
    assert [op_type for op_type in set(facts_by_type()) - {CUSTOM} if not is_op_type(op_type)] == []


def test_a_fact_is_said_once():
    before = facts_by_type()["MatMul"]
    with pytest.raises(ValueError, match=r"linear of MatMul is said once, in one place. Received: 'in all' as well"):
        declare("MatMul", linear="in all")
    assert before.linear == "in each"


def test_words_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"linear must be one of .* Received: 'in some'"):
        declare("MatMul", linear="in some")


def test_the_guide_shows_what_is_there():
    """The code of "Add an op type" in CONTRIBUTING.md is that of the modules that its paragraphs name."""
    guide = (ROOT.parent / "CONTRIBUTING.md").read_text().split("## Add an op type\n")[1].split("\n## ")[0]
    code = re.findall(r"^```\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    modules = set(re.findall(r"`(tfjac/\S+\.py)`", guide)) - {"tfjac/graph/facts.py"}
    text = "".join((ROOT.parent / module).read_text() for module in modules)
    naming = {f"tfjac/{each}" for layer in MODULES.values() for each in layer["BiasAdd"]}
    assert len(code) == 2 and modules == naming
    assert [line for block in code for line in block.splitlines() if line not in text.splitlines()] == []
