"""`least_squares`, `curve_fit` and their relatives."""
