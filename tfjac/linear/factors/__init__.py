"""Factors of J: the forms that the columns of one variable take."""
