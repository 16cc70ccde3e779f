"""The documentation site: staged, built by Sphinx, and looked at. `make docs` runs `python -m build_tools.site`."""
