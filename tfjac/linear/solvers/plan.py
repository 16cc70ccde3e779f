"""What a step will take, in words and numbers: the solver and why, memory, operations."""

import dataclasses

from tfjac.linear.contracts import MANY
from tfjac.linear.solvers.auto import AutoSolver
from tfjac.linear.solvers.base import Cost, Solver
from tfjac.linear.solvers.problem_sizes import SMALL, ProblemSizes

_MATRICES = {
    "kernel": "J·Jᵀ",
    "cholesky": "JᵀJ",
    "qr": "J",
    "svd": "J",
    "cg": "no matrix",
    "lsmr": "no matrix",
    "schur": "the Schur complement",
    "schur_cg": "no matrix",
    "sparse": "JᵀJ, sparse",
    "kronecker": "Kronecker factors of JᵀJ",
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """How steps on a problem are solved for; printed, a table.

    Attributes:
        residuals: how many; None where each batch decides.
        parameters: how many.
        dtype: what is computed in, `"float32"` or `"float64"`.
        solver: name of the solver, or of all that a batch may lead to, joined by " or ".
        reason: why, in words.
        costs: dict from the names of these solvers to their `Cost`: memory in bytes beside what is `held`, and
            multiply-adds `step` (once per step) and `attempt` (for each λ that is tried), two floating-point operations
            each. Empty where the number of residuals is open. Those of iterative solvers are for a typical number of
            iterations.
        held: bytes of J as factors and of the passes that it comes from, whichever solver; None where the number of
            residuals is open.
        hints: what keeps J from being sparse, and what to write instead, a sentence each; and what Keras' optimizer
            remembers of earlier batches, with bytes.
    """

    residuals: int | None
    parameters: int
    dtype: str
    solver: str
    reason: str
    costs: dict[str, Cost]
    held: int | None = None
    hints: tuple[str, ...] = ()

    @property
    def memory(self) -> int | None:
        """Bytes that a step plans to take: `held`, and what the solver takes; None where residuals are open."""
        return int(self.costs[self.solver].memory) + (self.held or 0) if self.solver in self.costs else None

    @property
    def flops_per_step(self) -> float | None:
        """Floating-point operations that form the system; None where the number of residuals is open."""
        return 2 * self.costs[self.solver].step if self.solver in self.costs else None

    @property
    def flops_per_attempt(self) -> float | None:
        """Floating-point operations for each λ; None where the number of residuals is open."""
        return 2 * self.costs[self.solver].attempt if self.solver in self.costs else None

    def __str__(self) -> str:
        residuals = "as many residuals as the batch has" if self.residuals is None else f"{self.residuals:,} residuals"
        lines = [
            f"A step on {residuals} and {self.parameters:,} parameters, solved in {self.dtype}",
            f"solver: {self.solver}; {self.reason}",
        ]
        if self.held is not None:
            lines.append(f"J as factors, and the passes that it comes from: {self.held / 2**20:,.1f} MB")
        for name, cost in self.costs.items():
            lines.append(
                f"{name}: {_MATRICES[name]}, {cost.memory / 2**20:,.1f} MB, "
                f"{2 * cost.step:.2g} operations once per step, {2 * cost.attempt:.2g} for each λ"
            )
        if not self.costs:
            lines.append("Memory and operations depend on the batch: plan(batch_size=…) has them.")
        return "\n".join([*lines, *self.hints])

    __repr__ = __str__


def plan_of(solver: Solver, sizes: ProblemSizes, batch_size: int | None = None, hints: tuple[str, ...] = ()) -> "Plan":
    """Return the `Plan` of a `Solver` for `ProblemSizes`.

    Args:
        sizes: `ProblemSizes`, of a traced problem.
        batch_size: number of examples, an integer, where the graph leaves that open; or None.
        hints: tuple of sentences, see `Plan`.

    Raises:
        ValueError: for another batch size than the graph was traced for.
    """
    sizes = sizes if batch_size is None else sizes.with_examples(batch_size)
    solvers = solver.choose(sizes).solvers
    name, dtype = " or ".join(each.name for each in solvers), "float64" if sizes.is_double else "float32"
    if sizes.rows is None:
        reason = "each batch decides, by the number of its residuals" if len(solvers) > 1 else _asked_or_only(solver)
        return Plan(None, sizes.parameters, dtype, name, reason, {}, hints=hints)
    costs = {each.name: each.cost(sizes) for each in solvers}
    reason = _reason(solver, solvers[0], sizes) if isinstance(solver, AutoSolver) else "asked for"
    costs = {key: Cost(*map(float, cost)) for key, cost in costs.items()}
    return Plan(int(sizes.rows), sizes.parameters, dtype, name, reason, costs, int(sizes.held()), hints)


def _asked_or_only(solver: Solver) -> str:
    return "the only one that is suitable" if isinstance(solver, AutoSolver) else "asked for"


def _reason(auto: AutoSolver, chosen: Solver, sizes: ProblemSizes) -> str:
    """Return why `"auto"` chose a solver."""
    rows, columns = int(sizes.rows), sizes.parameters
    if sizes.has_products_alone and all(layer.m < MANY for block in sizes.blocks for layer in block):
        return "J as factors does not fit the memory budget: it is taken by products alone"
    if sizes.has_products_alone:
        return "an example has many residuals: passes for each of them would take several times as long"
    if chosen.name == "qr":
        return "few parameters in float64: J is factored rather than squared"
    if chosen.name == "schur":
        return _eliminated(sizes)
    if chosen.name == "sparse":
        return "each example reads few rows of tables, which meet: JᵀJ is sparse"
    if chosen.name in ("cg", "schur_cg"):
        rivals = [each for each in auto.possible(sizes) if each.name != chosen.name]
        fitting = [each for each in rivals if auto.fits(each, sizes)]
        if chosen.name == "schur_cg":
            fits = any(each.name == "schur" for each in fitting)
            why = "would take several times as long to factor" if fits else "does not fit the memory budget"
            return f"{_eliminated(sizes)}, which {why}"
        if not fitting:
            return "neither JᵀJ nor J·Jᵀ fits the memory budget"
        return f"a factorisation ({' or '.join(each.name for each in fitting)}) would take several times as long"
    smaller = {"kernel": rows < columns, "cholesky": columns <= rows}[chosen.name]
    if smaller:
        return f"{_MATRICES[chosen.name]} is the smaller matrix, {min(rows, columns):,} × {min(rows, columns):,}"
    if chosen.name == "cholesky" and not sizes.one_prior_per_variable:
        return "a regulariser weighs elements of a variable differently, which J·Jᵀ does not take"
    small = chosen.name == "cholesky" and columns <= SMALL
    return "few parameters" if small else "the smaller matrix does not fit the memory budget"


def _eliminated(sizes: ProblemSizes) -> str:
    found = sizes.elimination
    return (
        f"each example reads one of {found.rows:,} rows of {found.width}, which are eliminated: what is left is "
        f"{found.remaining:,} × {found.remaining:,}"
    )
