"""Functions of a user's, traced: their residuals, data and constants."""
