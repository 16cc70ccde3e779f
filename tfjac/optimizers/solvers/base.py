"""What a linear solver is: something that makes a system of one linearisation, and solves it for any damping."""

import abc


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
    def prepare(self, objective):
        """Return the `System` of `objective` where it was linearised."""

    def run(self, objective, step):
        """Return `step(system)`; `"auto"` decides here which system that is."""
        return step(self.prepare(objective))

    def get_config(self):
        """Return the arguments of the constructor."""
        return {}

    @classmethod
    def from_config(cls, config):
        """Rebuild from `get_config()`."""
        return cls(**config)
