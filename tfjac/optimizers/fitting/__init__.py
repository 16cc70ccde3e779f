"""What users call: least squares to convergence, watched, interrupted, taken up again; many fits; parts of data."""
