"""Pages of the reference, one for each public name, from its docstring."""

import ast
import importlib
import inspect
import itertools
import pathlib
import re
import shutil
import textwrap

GROUPS = {
    "Jacobians and gradients": [
        "per_example_jacobian", "per_example_gradients", "per_example_gradient_norms", "clipped_gradients",
        "weighted_gradients", "jacobian_operator", "JacobianOperator", "jacobian", "batch_jacobian", "chain", "jvp",
        "vjp", "hvp", "ggnvp", "sparsity", "SparsityPattern", "sparse_jacobian", "per_segment_jacobian",
        "per_segment_gradients", "segment_operator", "ExamplesMix",
    ],
    "Training with Levenberg–Marquardt": [
        "fit", "LevenbergMarquardt", "callbacks", "full_batch", "RobustError", "GaussianNLL", "register_curvature",
        "fisher_of_normal", "optimizers", "laplace", "LaplacePosterior",
        "influence", "CurvatureInfluence", "TracInInfluence",
    ],
    "Least squares": [
        "least_squares", "LeastSquaresProblem", "LeastSquaresResult", "BatchedLeastSquaresResult", "Status",
        "MemoryBudgetExceeded",
        "curve_fit", "CurveFitResult", "plot_fit", "check_between", "manifolds", "Manifold", "normal_equations",
        "NormalEquations", "least_squares_by_parts",
    ],
    "Named parameters": ["Parameters", "models", "parameters"],
    "Private training": ["privacy"],
    "Explanations": ["explanations"],
    "Gradients inside of a model": [
        "nodes", "Nodes", "node_gradients", "values_at", "intercept", "Edit", "hook", "handlers", "rules", "tap",
        "op_type", "layer_call", "GradientSummaries", "plot_gradients",
    ],
    "Explaining and counting": ["explain_gradient", "GradientReport", "count_flops", "FlopCount"],
    "Black boxes": ["external", "External", "estimators", "MeasurementFailed"],
    "Native ops, testing and types": ["ops_info", "load_ops", "testing", "types"],
}  # fmt: skip


def write_pages(folder: pathlib.Path) -> None:
    """Write an index of all public names, and a page for each, into `folder`."""
    import tfjac

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    listed = [name for names in GROUPS.values() for name in names]
    groups = {**GROUPS, "Others": [name for name in tfjac.__all__ if name not in listed]}
    lines = ["# API reference", "", "Every public name of `tfjac`.", ""]
    for title, names in groups.items():
        names = [name for name in names if _found(name) is not None]
        if not names:
            continue
        lines += [f"## {title}", "", "| name | what it does |", "| --- | --- |"]
        lines += [f"| [`{name}`]({name}.rst) | {_first_line(_found(name))} |" for name in names]
        lines += ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
        for name in names:
            (folder / f"{name}.rst").write_text(_page(name, _found(name)))
    (folder / "index.md").write_text("\n".join(lines))


def _found(name):
    import tfjac

    try:
        return getattr(tfjac, name, None) or importlib.import_module(f"tfjac.{name}")
    except ImportError:
        return None


def _first_line(thing) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0].replace("|", "&#124;")


def _page(name, thing) -> str:
    heading = f"{name}\n{'=' * len(name)}\n\n"
    if inspect.ismodule(thing):
        text = heading + f".. automodule:: {thing.__name__}\n   :no-members:\n\n"
        return text + "".join(_member(thing, member) for member in _members(thing))
    return heading + _directive(f"tfjac.{name}", thing)


def _member(module, name) -> str:
    import tfjac

    thing = getattr(module, name)
    if getattr(tfjac, name, None) is thing:
        return f"`{module.__name__}.{name}` is :doc:`tfjac.{name} <{name}>`.\n\n"
    if module is not tfjac.callbacks and getattr(tfjac.callbacks, name, None) is thing:
        return f"`{module.__name__}.{name}` is in :doc:`tfjac.callbacks <callbacks>`.\n\n"
    return _directive(f"{module.__name__}.{name}", thing)


def _members(module):
    names = getattr(module, "__all__", None)
    return names or [name for name, thing in vars(module).items() if _is_own(module, name, thing)]


def _is_own(module, name, thing):
    return not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__


def _directive(path, thing) -> str:
    if inspect.isclass(thing):
        return f".. autoclass:: {path}\n   :members:\n   :undoc-members:\n\n"
    if callable(thing):
        return f".. autofunction:: {path}\n\n"
    return f".. autodata:: {path}\n   :no-value:\n\n"


def tidy_docstring(app, what, name, obj, options, lines):
    """Mark indented examples as code, and keep bars and stars as they are written: docstrings are read as text, too."""
    code, after_blank, session = False, False, False
    for number, line in enumerate(list(lines)):
        indented = line.startswith("    ")
        starts = indented and after_blank and not code and not _is_section(lines[: number - 1])
        code = (code or starts) and (indented or not line.strip())
        after_blank = not line.strip()
        session = not after_blank and (session or line.lstrip().startswith(">>>"))
        if starts:
            lines[number - 1] = "::\n"
        if not code and not session:
            lines[number] = _escaped(line)
    lines[:] = [part for line in lines for part in (["", "::", ""] if line == "::\n" else [line])]


def _is_section(lines) -> bool:
    """Return whether the last paragraph is one of Google's sections, whose entries are indented."""
    paragraph = list(itertools.takewhile(str.strip, reversed(lines)))
    return any(re.fullmatch(r"[A-Z]\w*( \w+)?:", line) for line in paragraph)


def _escaped(line: str) -> str:
    outside = re.split(r"(`[^`]*`)", line)
    outside[::2] = [re.sub(r"(?<!\\)([|*])", r"\\\1", part) for part in outside[::2]]
    return re.sub(r"(`[^`]+`)(?=\w)", r"\1\\ ", "".join(outside))


def signature_as_written(app, what, name, obj, options, signature, returns):
    """Return the signature with annotations as the source has them: `Variable`, not all that the name stands for."""
    if what not in ("class", "exception", "function", "method"):
        return None
    function = obj.__init__ if inspect.isclass(obj) else inspect.unwrap(obj)
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError):  # made by a decorator or by C, or part of an expression
        return None
    if not isinstance(definition, ast.FunctionDef):
        return None
    arguments = definition.args
    positional = arguments.posonlyargs or arguments.args
    if positional and positional[0].arg in ("self", "cls"):
        positional.pop(0)
    written = ast.unparse(definition.returns) if definition.returns and not inspect.isclass(obj) else None
    return f"({ast.unparse(arguments)})", written
