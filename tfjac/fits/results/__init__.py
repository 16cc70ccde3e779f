"""What fits return: results, statistics, pictures."""
