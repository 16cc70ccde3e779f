"""Examples as sphinx-gallery wants them: a title, the picture that is kept, what was printed, how long it took."""

import ast
import json
import pathlib
import re
import shutil

from build_tools.site import notebooks, thumbnails

HEADER = """Examples
========

Each example is a program: `python examples/01_regression.py`. The picture and the output are those of one run. On two
processor cores they take, with the start of Python and TensorFlow:

{durations}

Six of them are notebooks, too, which a hosted runtime opens: {notebooks}.
"""


def stage_examples(root: pathlib.Path) -> pathlib.Path:
    """Write examples with title, picture and output into `build/gallery`, and return that folder."""
    folder, kept = root / "build" / "gallery", root / "docs" / "images"
    for old in (folder, root / "docs" / "gallery"):
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(parents=True)
    links = [f"`{name} <{notebooks.address(name)}>`__" for name in notebooks.NAMES]
    runs = json.loads((kept / "runs.json").read_text()) if (kept / "runs.json").exists() else {}
    header = HEADER.format(notebooks=", ".join(links), durations=durations(runs))
    (folder / "GALLERY_HEADER.rst").write_text(header)
    for path in sorted((root / "examples").glob("[0-9][0-9]_*.py")):
        has_picture = (kept / f"{path.stem}.png").exists()
        if has_picture:
            thumbnails.write(kept / f"{path.stem}.png", folder / "thumbnails" / f"{path.stem}.png")
        (folder / path.name).write_text(staged(path.read_text(), path.stem, has_picture, runs.get(path.stem)))
    return folder


GROUPS = {"up to ten seconds": 10.5, "up to half a minute": 30.5, "longer": float("inf")}


def durations(runs: dict) -> str:
    """Return a list of the examples with the seconds that they take, in groups."""
    lines, before = [], 0.0
    for title, most in GROUPS.items():
        alike = {name: run["seconds"] for name, run in runs.items() if before < run["seconds"] <= most}
        shown = (f":doc:`{_short(name)} </gallery/{name}>` {seconds:.0f} s" for name, seconds in alike.items())
        lines += [f"- {title}: {', '.join(shown)}"] if alike else []
        before = most
    return "\n".join(lines)


def _short(name: str) -> str:
    """Return the name of an example's file as words."""
    return name[3:].replace("_", " ")


def staged(code: str, name: str, has_picture: bool, run: dict | None) -> str:
    """Return an example with a docstring in reStructuredText.

    Args:
        code: the example.
        name: of its file, without the ending.
        has_picture: whether `docs/images` has one.
        run: "seconds" and "output" of a run that is kept, or None.
    """
    docstring = ast.get_docstring(ast.parse(code), clean=True)
    first, rest = docstring.split("\n", 1)
    title = first.rstrip(".").split(": ")[0]
    if title != first.rstrip("."):
        rest = f"\n{first}\n{rest}"
    parts = [title, "=" * len(title), re.sub(r"(?m)^    (python .*)$", r".. code-block:: console\n\n    \1", rest)]
    if has_picture:
        parts += ["", f".. image:: /images/{name}.png", f"   :alt: {title}", ""]
    if run:
        output = "\n".join("    " + line for line in run["output"].splitlines())
        parts += ["", f"It takes {run['seconds']:.0f} seconds and prints:", "", ".. code-block:: none", "", output, ""]
    body = code[code.index('"""', 3) + 3 :]
    thumbnail = f"# sphinx_gallery_thumbnail_path = '../build/gallery/thumbnails/{name}.png'\n" if has_picture else ""
    return f'r"""\n{chr(10).join(parts)}\n"""\n\n{thumbnail}{body.lstrip()}'
