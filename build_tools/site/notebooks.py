"""Notebooks of some examples, for a hosted runtime: text, code in cells, and the picture at the end.

    python -m build_tools.site.notebooks

They are written into examples/notebooks. Change the examples, not the notebooks.
"""

import ast
import json
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "notebooks"
REPOSITORY = "https://github.com/tfjac/tfjac"
NAMES = (
    "01_regression", "03_per_example_gradients", "07_explanations", "10_outliers", "11_physics_informed",
    "12_uncertainty",
)  # fmt: skip
SETUP = """import importlib.util
import pathlib
import subprocess
import sys

folders = [pathlib.Path(name) for name in ("examples", "..", "tfjac/examples")]
if not any((folder / "example_data.py").exists() for folder in folders):
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", "{repository}"], check=True)
examples = next(folder for folder in folders if (folder / "example_data.py").exists())
if importlib.util.find_spec("tfjac") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", examples.parent], check=True)
sys.path.insert(0, str(examples))
__file__ = str(examples / "{name}.py")"""


def notebook(name: str) -> dict:
    """Return the notebook of an example, without outputs.

    Args:
        name: of a file in examples/, without its ending. Its `main` parses arguments, and returns something at its end.
    """
    code = (ROOT / "examples" / f"{name}.py").read_text()
    module = ast.parse(code)
    parts = [("markdown", _title(ast.get_docstring(module), name))]
    parts.append(("code", SETUP.format(repository=REPOSITORY, name=name)))
    parts += [("code", text) for text in _cells(code, module, name)]
    parts.append(("code", "from IPython.display import Image\n\nImage(filename=str(options.plot))"))
    cells = [_cell(number, kind, text) for number, (kind, text) in enumerate(parts)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def written(name: str) -> str:
    """Return the text of an example's notebook file."""
    return json.dumps(notebook(name), indent=1, ensure_ascii=False) + "\n"


def address(name: str) -> str:
    """Return where a hosted runtime opens a notebook of the repository."""
    place = REPOSITORY.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{place}/blob/main/examples/notebooks/{name}.ipynb"


def _title(docstring: str, name: str) -> str:
    first, rest = docstring.split("\n", 1)
    rest = re.sub(r"(?m)^    python .*\n", "", rest)
    return f"# {first.rstrip('.')}\n\n{rest.strip()}\n\n[Open in Colab]({address(name)})"


def _cell(number: int, kind: str, text: str) -> dict:
    cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.strip("\n").splitlines(True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def _cells(code: str, module: ast.Module, name: str):
    """Yield the text of each cell: imports and constants, then each definition, then the parts of `main`."""
    lines = code.splitlines()
    body = [node for node in module.body[1:] if not _is_main_guard(node)]
    definitions = [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    yield _text(lines, body[0].lineno, _start(definitions[0]) - 1)
    for node, following in zip(definitions, [*definitions[1:], None]):
        if getattr(node, "name", None) == "main":
            yield from _cells_of_main(code, node, name)
        else:  # with the constants that follow it
            yield _text(lines, _start(node), _start(following) - 1)


def _cells_of_main(code: str, main: ast.FunctionDef, name: str):
    statements = main.body[1:-1]
    first = next(number for number, node in enumerate(statements) if not _parses(node))
    yield _options(code, statements[:first]).replace("plot=PLOT", f'plot=pathlib.Path("{name}.png")')
    lines = code.splitlines()
    text = textwrap.dedent(_text(lines, statements[first].lineno, main.body[-1].lineno - 1))
    text = re.sub(r'(?m)^print\(f"plot: .*\n?', "", text)
    yield from re.split(r"\n\n+(?=\S)", text.strip("\n"))


def _options(code: str, statements) -> str:
    """Return the options of the command line with their defaults, as a namespace to change by hand."""
    rows = []
    for call in [node.value for node in statements if isinstance(node, ast.Expr)]:
        keywords = {keyword.arg: ast.get_source_segment(code, keyword.value) for keyword in call.keywords}
        rows.append(
            f"    {call.args[0].value.lstrip('-')}={keywords['default']},  # {ast.literal_eval(keywords['help'])}"
        )
    return "\n".join(["options = argparse.Namespace(", *rows, ")"])


def _parses(node) -> bool:
    return "parser" in {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def _is_main_guard(node) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _start(node) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _text(lines: list[str], first: int, last: int) -> str:
    return "\n".join(lines[first - 1 : last]).strip("\n")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        (FOLDER / f"{name}.ipynb").write_text(written(name))


if __name__ == "__main__":
    main()
