"""Building the native libraries: used by setup.py, and by the Makefile as `python -m build_tools`."""
