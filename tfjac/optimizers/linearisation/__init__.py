"""The residuals where the variables are, to first order: J and what is computed from it."""
