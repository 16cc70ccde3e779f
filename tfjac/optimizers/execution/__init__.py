"""How the loop is carried out where it is not one problem on one device: replicas, workers, many fits, streams."""
