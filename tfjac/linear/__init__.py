"""The linear algebra of steps, on tensors: factors of J, models, systems and their solvers. It reads no graph."""
