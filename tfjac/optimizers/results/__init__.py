"""What a minimisation found, and what it is worth: statistics, tables, pictures."""
