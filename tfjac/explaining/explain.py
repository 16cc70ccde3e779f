"""`explain_gradient`: whether ys have a gradient with respect to each x, and if not, where it is lost and why."""

import dataclasses

import tensorflow as tf

from tfjac.explaining.magnitudes import judge, magnitudes
from tfjac.explaining.report import GradientPath, GradientReport, Stop
from tfjac.graph import (
    Dependence,
    Scratch,
    ancestors,
    assignments_between,
    call_converted,
    edit_mark,
    handle_in,
    is_variable,
    layer_path,
    line_of_failure,
    lost_paths,
    read_graph,
    source_line,
    stops_in_bodies,
    stops_of,
    unregistered,
)
from tfjac.jacobians.passes.nests import like, sources_of
from tfjac.types import Sources, Tensors


def explain_gradient(ys: Tensors, xs: Sources) -> GradientReport:
    """Explain whether ys have a gradient with respect to each x, and if not, where it is lost and what to do.

    A gradient may be missing as values leave TensorFlow (NumPy, `tf.py_function`), are rounded, compared, or cast to
    integers; because of `tf.stop_gradient`, an op without a gradient, or an assignment to a variable; because ys were
    computed from something else: another tensor, a variable that the function makes again at each call, a copy of the
    value. It may be there and be zero, by dead or saturated units, or grow without bound: where the values are known,
    that is where ys are a callable whose variables and tensors have values, the gradient is taken node by node.

    Args:
        ys: floating-point tensor of the `tf.function` being traced, or a nest of such tensors; or a callable without
            arguments that returns it, anywhere. The callable is traced; its side effects do not happen.
        xs: `tf.Variable`, `keras.Variable`, tensor, or a nest of them; or selectors of nodes, see `tfjac.nodes`.

    A function that asks tensors for their values, by `.numpy()`, `float(…)` or NumPy, cannot be traced. It is then run
    once, under a `tf.GradientTape`, side effects and all, and the report names the line where values leave TensorFlow.

    Returns:
        A `GradientReport`: a sequence of `GradientPath`, one per x in the order of `tf.nest.flatten(xs)`, also by name.
        It prints as a table and what is to be said of each x.

    Raises:
        ValueError: for an empty nest, for ys that are eager or of another graph, and for a selector that does not
            select one node.
        TypeError: for ys that are not floating-point, and xs that are no variables, tensors or selectors.

    Numbers are left out where a value is not known, and where the function assigns to a variable that ys read.

    Cost: some walks over the graph; with values, a copy of the graph, one forward and one backward pass.

    Example:
        >>> x = tf.Variable(3.0)
        >>> tfjac.explain_gradient(lambda: tf.square(tf.round(x)), x)
        GradientReport(Variable: lost)
    """
    names = _names(tf.nest.flatten(xs))
    made = _Made(ys) if callable(ys) else None

    def paths(ys, xs):
        return tuple(_paths(tf.nest.flatten(ys), tf.nest.flatten(xs), names, made))

    try:
        return GradientReport(read_graph(paths, made or ys, xs))
    except Exception:
        if made is None or made.failure is None or not tf.executing_eagerly():
            raise
        found = explain_by_running(ys, xs, names, made.failure)
        if found is None:
            raise
        return GradientReport(found)


class _Made:
    """A callable that notes which variables it makes; traced a second time, it gets those of the first.

    Attributes:
        variables: list of these.
        failure: the exception that it raised, or None.
    """

    def __init__(self, function):
        self._function, self.variables, self.failure = function, [], None
        self.__wrapped__ = function  # what it takes, for messages

    def __call__(self):
        given = iter(list(self.variables))

        def creator(make, **options):
            variable = next(given, None)
            if variable is None:
                variable = make(**options)
                self.variables.append(variable)
            return variable

        with tf.variable_creator_scope(creator):
            try:
                return call_converted(self._function)
            except Exception as failure:
                self.failure = failure
                raise


def _paths(ys, xs, names, made):
    sources, refused = [], {}
    for index, x in enumerate(xs):
        try:
            sources += sources_of([x], may_be_complex=True)
        except (ValueError, TypeError) as problem:
            if not (is_variable(x) or tf.is_tensor(x)):
                raise
            sources.append(None)
            refused[index] = _refusal(x, problem)
    if not xs:
        sources_of(xs)
    dependence = Dependence(sources)
    flawed = bool(unregistered(ys, dependence) or lost_paths(ys, dependence))
    paths = []
    for index, (x, name) in enumerate(zip(xs, names)):
        verdict = refused.get(index) or _structure(index, x, ys, dependence, flawed, made)
        paths.append(GradientPath(name, **{"notes": _notes(x, ys), **verdict}))
    return _with_numbers(paths, ys, sources)


def _refusal(x, problem):
    if not (x.dtype.is_floating or x.dtype.is_complex):
        reason = f"It holds {like(x).dtype.name}: there is no derivative with respect to integers."
        return {"verdict": "not floating-point", "reason": reason, "remedy": "cast it before it is used, and pass that"}
    return {
        "verdict": "another graph",
        "reason": f"It is a tensor of another call or graph than ys: {x.name} of {x.graph!r}.",
        "remedy": "compute ys and x in the same call of the same tf.function, or hand x over as an argument or result",
    }


def _structure(index, x, ys, dependence, flawed, made):
    """What the graph says of one x: the fields of its `GradientPath`. `flawed`: whether any path of any x is lost."""
    source = dependence.sources[index]
    if source is None:
        return _unused(x, ys, made)
    if index in dependence.sources_of_any(ys):
        alone = Dependence([source])
        raising = unregistered(ys, alone) if flawed else ()
        partly = lost_paths(ys, alone) if flawed and not raising else []
        partly = [*partly, *stops_in_bodies(ys, alone)]
        connected = {"verdict": "connected", "reason": "A gradient reaches it.", "stops": _stops(partly)}
        return _lost(raising) if raising else connected
    stops = stops_of(index, ys, dependence)
    if stops:
        return _lost(stops)
    assigned = assignments_between(Dependence([source], by_value=True), ys)
    if assigned:
        return {**_lost(assigned), "verdict": "assigned"}
    return _unused(x, ys, made)


def _lost(paths):
    stops = _stops(paths)
    return {
        "verdict": "lost",
        "reason": "No gradient reaches it.",
        "remedy": _remedies(stops),
        "stops": stops,
    }


def _remedies(stops):
    return "; or ".join(dict.fromkeys(stop.remedy for stop in stops))


def _stops(paths):
    return tuple({path.op.name: _stop(path) for path in paths}.values())


def _stop(path):
    """The `Stop` of a lost path, which an edit of tfjac may have made."""
    op, reason, remedy, edit = path.op, path.reason, path.remedy, edit_mark(path.op)
    if edit:
        reason, remedy = f"{reason}: it is that of {edit}", f"take off {edit}, if it is not meant"
    return Stop(op.name, op.type, layer_path(op), source_line(op), path.kind, reason, remedy)


def _unused(x, ys, made):
    twins = [variable for variable in (made.variables if made else ()) if variable.shape == x.shape]
    if is_variable(x) and twins:
        return {
            "verdict": "made again",
            "reason": f"The function makes variables of its own at each call, and uses these: {twins[0].name!r}.",
            "remedy": "make variables and layers once, outside of the function",
        }
    if is_variable(x):
        return {
            "verdict": "not used",
            "reason": "ys do not depend on it: the function reads other variables, or a copy of its value.",
            "remedy": "leave it out, or compute ys from the variable itself: not from .numpy(), nor from another model",
        }
    return {
        "verdict": "not used",
        "reason": "ys do not depend on this tensor: they were computed before it, or from a copy of it.",
        "remedy": "compute ys from this very tensor: what NumPy or another op made of its value is another one",
    }


def _notes(x, ys):
    notes = []
    if is_variable(x):
        if not x.trainable:
            notes.append("not trainable: a GradientTape does not watch it, and Keras does not train it")
        handle = handle_in(ys[0].graph, x)
        users = handle.consumers() if handle is not None else ()
        for op in users:
            if op.type.startswith("Assign"):
                notes.append(f"assigned in the function by op {op.name!r}: the gradient is that at the value read")
    elif not tf.is_symbolic_tensor(x):
        notes.append("a tensor, not a variable: a GradientTape follows it only after tape.watch")
    return tuple(notes)


def _with_numbers(paths, ys, sources):
    """The paths with the gradient node by node, where there are values."""
    scratch = Scratch(ys)
    copies = [scratch.of(source) if path.connected else None for path, source in zip(paths, sources)]
    if not any(copy is not None for copy in copies) or scratch.without_value() or _assigned(ys):
        return paths
    chains = magnitudes(scratch, copies)
    return [_numbered(path, nodes) if nodes else path for path, nodes in zip(paths, chains)]


def _assigned(ys):
    """Whether the function assigns to a variable that ys are computed from: it may not have its value any more."""
    handles = [op.outputs[0] for op in ancestors(ys) if op.outputs and op.outputs[0].dtype == tf.resource]
    return any(op.type.startswith("Assign") for handle in handles for op in handle.consumers())


def _numbered(path, nodes):
    verdict, reason, remedy = judge(nodes)
    if verdict == "zero" and path.stops:  # zeros are all that came by another way
        remedy = _remedies(path.stops)
    nodes = (*nodes[:-1], dataclasses.replace(nodes[-1], op=path.name))
    return dataclasses.replace(path, verdict=verdict, reason=reason, remedy=remedy, nodes=nodes)


def _names(flat):
    """What each x is called: the path of a Keras variable, the name of another, a selector, else its place."""
    found = []
    for index, x in enumerate(flat):
        name = getattr(x, "path", None) or (x.name if isinstance(x, tf.Variable) or tf.is_symbolic_tensor(x) else None)
        name = x if isinstance(x, str) else name
        found.append((name or f"xs[{index}]").removesuffix(":0"))
    return [name if found.count(name) == 1 else f"{name} (xs[{index}])" for index, name in enumerate(found)]


_REASON = "where values leave TensorFlow: what is computed from them has no gradient"
_REMEDY = (
    "compute it by TensorFlow's ops, without .numpy(), float(…), NumPy or a list of values; or give it a gradient, by "
    "tf.custom_gradient or tfjac.external"
)


def explain_by_running(function, xs, names, failure):
    """Return the tuple of `GradientPath` for a function that needs values, by one run of it; None where it cannot be.

    Args:
        function: callable without arguments that fails while it is traced.
        xs: nest of variables and eager tensors.
        names: list of what they are called.
        failure: the exception that it raised then, which tells the line.
    """
    flat, line = tf.nest.flatten(xs), line_of_failure(failure)
    if line is None or not all(is_variable(x) or tf.is_tensor(x) for x in flat):
        return None
    sources = [like(x) for x in flat]
    try:
        with tf.GradientTape(persistent=True) as tape:
            for source in sources:
                tape.watch(source)
            ys = function()
    except Exception:  # it does not work without a graph either: the first failure is the one to tell of
        return None
    tensors = [y for y in tf.nest.flatten(ys) if tf.is_tensor(y) and (y.dtype.is_floating or y.dtype.is_complex)]
    gradients = tape.gradient(tensors, sources) if tensors else [None] * len(sources)
    stop = Stop("", "", "", line, "python", _REASON, _REMEDY)
    return tuple(_path(name, gradient, stop) for name, gradient in zip(names, gradients))


def _path(name, gradient, stop):
    if gradient is None:
        reason = "No gradient reaches it: a tf.GradientTape around one call of the function has none."
        return GradientPath(name, "lost", reason, stop.remedy, (stop,))
    return GradientPath(name, "connected", "A gradient reaches it, by another way than that line.", "", (stop,))
