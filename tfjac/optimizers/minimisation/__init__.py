"""Whole minimisations: steps in a loop of the graph until a tolerance is met; watched, interrupted, taken up again."""
