"""Every rule of sparsity, broken: with what it gives thinned out, the pattern of some case must lack entries."""

import numpy as np
import scipy.sparse

from tests.jacobians.sparsity_cases import CASES, COMPARED
from tests.jacobians.test_sparsity_rules import expected, rules_met, traced


def test_every_broken_rule_is_seen(monkeypatch):
    """With what it gives thinned out, each rule makes the pattern of some case lack entries that are there."""
    users = {}
    for name in CASES:
        for op_type in rules_met(name, monkeypatch)[1]:
            users.setdefault(op_type, []).append(name)
    in_order = {each: sorted(names, key=num_ops) for each, names in users.items()}
    survivors = [each for each in users if not any(is_seen(each, name, monkeypatch) for name in in_order[each])]
    assert {*survivors} <= COMPARED


def num_ops(name):
    return len(traced(name)[0].graph.get_operations())


def is_seen(op_type, name, monkeypatch):
    pattern, _ = rules_met(name, monkeypatch, emptied if CASES[name].larger else thinned, {op_type})
    found = pattern.csr().toarray()
    return any((~found & (np.abs(jacobian) > 1e-5)).any() for jacobian in expected(name))


def thinned(sets):
    """Index sets without the last entry of each that is not empty; for lists, without anything."""
    if sets is None or not scipy.sparse.issparse(sets):
        return None
    kept = np.ones(sets.nnz, bool)
    kept[sets.indptr[1:][np.diff(sets.indptr) > 0] - 1] = False
    indptr = np.concatenate([[0], np.cumsum(kept)])[sets.indptr]
    return scipy.sparse.csr_array((sets.data[kept], sets.indices[kept], indptr), shape=sets.shape)


def emptied(sets):
    """No dependence."""
    return None
