"""Residuals as people write them, made graphs, and when a graph that was traced before serves again."""
