"""Rules broken on purpose, in one process: `make mutate`."""
