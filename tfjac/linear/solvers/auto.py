"""`"auto"`: the solver that the sizes of the problem ask for."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfjac.arguments import positive
from tfjac.linear.contracts import MANY, LinearModel
from tfjac.linear.solvers.base import Choice, Cost, Solver, System
from tfjac.linear.solvers.cholesky import CholeskySolver
from tfjac.linear.solvers.conjugate_gradient import ITERATIONS, ConjugateGradientSolver
from tfjac.linear.solvers.iterative_schur import IterativeSchurSolver
from tfjac.linear.solvers.kernel import KernelSolver
from tfjac.linear.solvers.problem_sizes import LARGE, SMALL, ProblemSizes
from tfjac.linear.solvers.qr import QRSolver
from tfjac.linear.solvers.schur import SchurSolver
from tfjac.linear.solvers.sparse import SparseSolver

QR_ELEMENTS = 2**22
"""In float64, a J of up to so many elements is factored itself rather than squared."""

PAYS = 4
"""Conjugate gradients are taken where they cost this much less: exact steps lower the loss by more."""

SLOWNESS = 4
"""Products with vectors run at the speed of memory, factorisations at that of arithmetic: so many times faster."""

SPARSE_SLOWNESS = 20
"""Multiply-adds of a dense factorisation in the time of one of a sparse one, which finds its numbers by indices."""

SCATTER = 10
"""Multiply-adds in the time in which one number is added to an entry of a sparse JᵀJ."""

FEW_READ = 16
"""Numbers of J, of one residual of each example, for each parameter: up to so many, as of graphs of poses, factors stay
sparser than can be counted beforehand."""

STUBBORN = 4
"""Times as many iterations as usual that chains and grids, which sparse factorisations are for, may take."""

ITERATION = 2e7
"""Multiply-adds of a factorisation in the time that the operations of one iteration take to be started."""

ATTEMPTS = 1.5
"""For each step, on average."""

LOOSE, FEW = 0.1, 25
"""Tolerance and iterations of `"cg"` where J is products alone: a text is learnt by many steps that cost little."""


@keras.saving.register_keras_serializable("tfjac")
class AutoSolver(Solver):
    """Chooses by the number of residuals nm, of parameters p, the dtype, what each solver costs, and a memory budget.

    - an example has 512 residuals or more, whose cotangents would take as many passes, and 2²⁰ numbers of J or more,
      p > 256, and D = I: `"cg"`;
    - float64, p ≤ 256, nm known and ≥ p, J of at most 2²² elements: `"qr"`;
    - p ≤ nm, or p ≤ 256: `"cholesky"`;
    - p > nm: `"kernel"` (not with a regulariser that weighs the elements of one variable differently);
    - the matrix that this would need is over the budget: the other of the two, or else `"cg"`;
    - p > 256, a variable that can be eliminated, and that costs less than both: `"schur"`;
    - p > 256, tables alone that are read by index, not under XLA, and less time by the counted entries of JᵀJ and of
      its factor than a dense factorisation: `"sparse"`, unless the elimination leaves less than half of the parameters,
      or `"cg"` would take much less time even with many iterations; p > 2048 where entries cannot be counted;
    - p > 2048, and `"cg"` would cost a quarter at most, by `effort`: `"cg"`;
    - wherever this leads to `"cg"`, and a variable can be eliminated: `"schur_cg"`.

    What does not fit the `memory_budget` of the minimisation, with J and the passes that it comes from, is left out.
    Where several processes share the residuals: `"cholesky"`, or `"cg"` where that is over the budget.

    Where the batch size is open while tracing, as in `fit`, and more than one would do, all are traced and the batch
    decides as it comes.

    Args:
        memory_budget: bytes that the matrix and its factor may take; None for what the minimisation may.
        iterative: whether `"cg"` or `"schur_cg"` may be chosen; without them, the smaller matrix is factored whatever
            that takes.
    """

    name = "auto"
    usual_window = SparseSolver.usual_window
    names = tuple(
        solver.name
        for solver in (
            QRSolver,
            KernelSolver,
            CholeskySolver,
            ConjugateGradientSolver,
            SchurSolver,
            SparseSolver,
            IterativeSchurSolver,
        )
    ) + ("kronecker",)

    def __init__(self, memory_budget: float | None = None, iterative: bool = True) -> None:
        self.memory_budget = None if memory_budget is None else positive("memory_budget", memory_budget)
        self.iterative = bool(iterative)
        self.takes_products = self.iterative

    def factoring(self) -> Solver:
        """Return the same without conjugate gradients, which do not know the effective number of parameters."""
        return AutoSolver(self.memory_budget, iterative=False)

    def choose(self, sizes: ProblemSizes) -> Choice:
        """Return the `Choice` that sizes, the dtype and the memory budget lead to.

        Raises:
            MemoryBudgetExceeded: where nothing fits the budget of `sizes`.
        """
        if sizes.has_products_alone:
            many = any(layer.m is None or layer.m >= MANY for block in sizes.blocks for layer in block)
            options = {"tolerance": LOOSE, "max_iterations": FEW} if many else {"preconditioner": "diagonal"}
            return ConjugateGradientSolver(**options).choose(sizes)
        if sizes.is_shared:
            solver = CholeskySolver() if self._fits_square(sizes) or not self.iterative else ConjugateGradientSolver()
            return solver.choose(sizes)
        rows, columns = sizes.rows, sizes.parameters
        tall = rows is not None and rows >= columns and rows * columns <= QR_ELEMENTS
        if sizes.is_double and tall and columns <= SMALL and self.fits(QRSolver(), sizes):
            return QRSolver().choose(sizes)
        solvers = self.possible(sizes)
        choice = Choice(solvers, lambda rows: self._best(solvers, sizes._replace(rows=rows)))
        return choice if rows is None else solvers[choice.index(float(rows))].choose(sizes)

    def left_out(self, sizes: ProblemSizes) -> tuple[str, float] | None:
        """Return the solver that would be chosen if memory had no bound, and the bytes that it plans; None if it is."""
        if sizes.rows is None or self.memory_budget is not None or sizes.has_products_alone or sizes.is_shared:
            return None
        best = self.choose(sizes._replace(budget=math.inf)).solvers[0]
        return None if self.fits(best, sizes) else (best.name, best.memory(sizes))

    def fits(self, solver: Solver, sizes: ProblemSizes) -> Any:
        """Return whether a solver fits the budgets, for sizes with a number of rows: a bool, or a tensor."""
        return self._fit(solver.cost(sizes), sizes)

    def _fit(self, cost: Cost, sizes: ProblemSizes) -> Any:
        own = math.inf if self.memory_budget is None else self.memory_budget
        return (cost.memory <= own) & (sizes.held() + cost.memory <= sizes.budget)

    def _fits_square(self, sizes: ProblemSizes) -> Any:
        """Return whether JᵀJ and its factor fit the memory budget, and what is known of J beside them."""
        return self.fits(CholeskySolver(), sizes._replace(rows=0.0) if sizes.rows is None else sizes)

    def possible(self, sizes: ProblemSizes) -> tuple[Solver, ...]:
        """Return a tuple of the solvers that may do, whatever the number of rows, but for `"qr"`."""
        square = self._fits_square(sizes)
        products = self._products(sizes) if sizes.elimination is None else IterativeSchurSolver()
        would_do = [
            (KernelSolver(), sizes.one_prior_per_variable and sizes.parameters > SMALL),
            (CholeskySolver(), square or not self.iterative),
            (SchurSolver(), self._eliminates(sizes)),
            (SparseSolver(), self._keeps_apart(sizes)),
            (products, self.iterative and (sizes.parameters > LARGE or not square)),
        ]
        return tuple(solver for solver, would in would_do if would)

    def _products(self, sizes: ProblemSizes) -> Solver:
        """Return conjugate gradients, with a preconditioner that fits."""
        usual = ConjugateGradientSolver()
        tight = sizes.rows is not None and usual.memory(sizes) > sizes.budget
        return ConjugateGradientSolver(preconditioner="diagonal") if tight else usual

    def _eliminates(self, sizes: ProblemSizes) -> bool:
        """Whether a variable may be eliminated, and what is left fits."""
        if sizes.elimination is None or sizes.parameters <= SMALL or not self.iterative:
            return False
        own = sizes.budget if self.memory_budget is None else self.memory_budget
        return 2 * sizes.itemsize * sizes.elimination.remaining**2 <= own

    def _keeps_apart(self, sizes: ProblemSizes) -> bool:
        """Whether each example may touch few of many parameters, in a graph that may run Python."""
        many = sizes.parameters > (LARGE if sizes.counts is None else SMALL)
        return self.iterative and sizes.are_tables and many and not sizes.is_compiled

    def _best(self, solvers: Sequence[Solver], sizes: ProblemSizes) -> Any:
        """Return the index of the best for sizes with a number of rows: an integer, or a tensor where that is one."""
        costs = {solver.name: solver.cost(sizes) for solver in solvers}
        fit = {name: self._fit(cost, sizes) for name, cost in costs.items()}
        exact, ranks = float("inf"), {}
        if "cholesky" in costs:
            exact, ranks["cholesky"] = effort(costs["cholesky"]), 1
        if "kernel" in costs:
            usable = fit["kernel"] & (sizes.rows < (sizes.parameters if "cholesky" in costs else float("inf")))
            exact, ranks["kernel"] = _where(usable, effort(costs["kernel"]), exact), _where(usable, 0, 3)
        if "schur" in costs:
            least = effort(costs["schur"])
            usable = fit["schur"] & (least < exact)
            exact, ranks["schur"] = _where(usable, least, exact), _where(usable, -1, 4)
        if "sparse" in costs:
            least, iterative = sparse_effort(costs["sparse"], sizes), float("inf")
            for name in {"cg", "schur_cg"} & set(costs):
                iterative = PAYS * STUBBORN * iterative_effort(costs[name])
            shrinks = "schur" in costs and 2 * sizes.elimination.remaining < sizes.parameters
            few = sum((n * k for n, _, k in sizes.touched()), start=0.0) <= FEW_READ * sizes.parameters
            usable = fit["sparse"] & (((least < exact) & (least < iterative)) | few)
            ranks["sparse"] = _where(usable, -1 if shrinks else -3, 5)
        for name in {"cg", "schur_cg"} & set(costs):
            ranks[name] = _where(PAYS * iterative_effort(costs[name]) <= exact, -2, 2)
        listed = [ranks[solver.name] for solver in solvers]
        if tf.is_tensor(sizes.rows):
            return tf.argmin(tf.stack(listed), output_type=tf.int32)
        return listed.index(min(listed))

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost` of the solver chosen for sizes whose number of rows is known."""
        return self._chosen(sizes).cost(sizes)

    def prepare(self, linearisation: LinearModel) -> System:
        """Return the system of the solver chosen for a J whose shape the graph fixes."""
        return self._chosen(ProblemSizes.of(linearisation)).prepare(linearisation)

    def _chosen(self, sizes: ProblemSizes) -> Solver:
        choice = self.choose(sizes)
        return choice.solvers[choice.index(sizes.rows)]


def effort(cost: Cost) -> Any:
    """Return the multiply-adds of a step by a factorisation."""
    return cost.step + ATTEMPTS * cost.attempt


def sparse_effort(cost: Cost, sizes: ProblemSizes) -> Any:
    """Return the multiply-adds that a dense factorisation could do in the time of a step by a sparse one."""
    pairs = sum((n * k**2 for n, _, k in sizes.touched()), start=0.0)
    return cost.step + SCATTER * pairs + ATTEMPTS * SPARSE_SLOWNESS * cost.attempt


def iterative_effort(cost: Cost) -> Any:
    """Return the multiply-adds that a factorisation could do in the time of a step by conjugate gradients."""
    return SLOWNESS * effort(cost) + ATTEMPTS * ITERATIONS * ITERATION


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, bool):
        return yes if condition else no
    return tf.where(condition, yes, no)
