"""The notebooks are those of the examples as they are now, and run."""

import json
import pathlib

import pytest

from build_tools.site import notebooks

ROOT = pathlib.Path(__file__).parents[1]


def test_there_are_six_and_no_others():
    assert len(notebooks.NAMES) == 6
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == set(notebooks.NAMES)


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_notebook_is_that_of_the_example(name):
    kept = (notebooks.FOLDER / f"{name}.ipynb").read_text()
    assert kept == notebooks.written(name), "python -m build_tools.site.notebooks writes them"


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_cells_hold_each_definition_of_the_example_once(name):
    cells = notebooks.notebook(name)["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    compile(code, name, "exec")
    example = (ROOT / "examples" / f"{name}.py").read_text().splitlines()
    definitions = [line for line in example if line.startswith(("def ", "class ")) and not line.startswith("def main(")]
    assert definitions and all(code.splitlines().count(line) == 1 for line in definitions)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_notebook_runs(name, tmp_path, monkeypatch):
    """In a kernel as a hosted runtime has, beside the examples; the last cell shows a picture."""
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    notebook = nbformat.reads(json.dumps(notebooks.notebook(name)), as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any("image/png" in output.get("data", {}) for output in notebook.cells[-1].outputs)
    printed = [output.text for cell in notebook.cells for output in cell.get("outputs", []) if output.get("text")]
    assert "".join(printed).strip()
