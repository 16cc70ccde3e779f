"""Who carries the steps: Python, a graph, many fits at once, several processes, streams of batches."""
