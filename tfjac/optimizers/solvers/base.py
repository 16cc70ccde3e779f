"""What a linear solver is: something that makes a system of one linearisation, and solves it for any damping."""

import abc
from typing import NamedTuple


class System(abc.ABC):
    """The linear system (JᵀJ + λD + Λ) p = −g of one linearisation, for any λ and D.

    Attributes:
        gradient: `[p]`, g = Jᵀr + Λ(w−w₀).
        diagonal: `[p]`, diag(JᵀJ).
    """

    gradient = None
    diagonal = None

    @abc.abstractmethod
    def solver(self, scaling):
        """Return `solve`: from λ (scalar) to p `[p]` and whether it could be solved (scalar bool).

        Where it could not, p is zeros: nothing raises, nothing that is not finite comes out. What depends on D
        `[p]` (`scaling`) but not on λ is computed here, once.
        """

    @abc.abstractmethod
    def quadratic(self, step):
        """Return pᵀ(JᵀJ + Λ)p, a scalar."""

    def simplify(self, scaling):
        """Return the D `[p]` that this solver can use in place of `scaling`."""
        return scaling


class Solver(abc.ABC):
    """A way to solve (JᵀJ + λD + Λ) p = −g."""

    name = None
    """What the solver is called in the options and in reports."""

    @abc.abstractmethod
    def prepare(self, linearisation):
        """Return the `System` of a `Linearisation`."""

    @property
    def names(self):
        """Names of all solvers that `choose` may come to."""
        return (self.name,)

    def choose(self, linearisation):
        """Return the `Choice` of solvers for a `Linearisation`: this one, whatever the shape of J."""
        return Choice(self, self)

    def get_config(self):
        """Return the arguments of the constructor."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Rebuild from `get_config()`."""
        return cls(**config)


class Choice(NamedTuple):
    """The solvers for the two shapes that J can have where the number of its rows shows only with the batch.

    Attributes:
        wide: the one for fewer rows than columns.
        tall: the one for all else; the same object where both will do with one.
    """

    wide: Solver
    tall: Solver
