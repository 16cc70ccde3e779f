"""What a graph says of itself: order of ops, values and sizes known while tracing, state, names and lines of source."""
