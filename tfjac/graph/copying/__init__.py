"""Copies of parts of a graph: inlined, with other values for ancestors, in the body of a loop, in a scratch graph."""
