"""The scores of a model as a graph that explanations read and edit, and what is kept of it between calls."""

import difflib
import weakref
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfjac.arguments import described_value
from tfjac.graph import (
    Dependence,
    as_computed,
    between,
    call_converted,
    flat_layers,
    has_custom_gradient,
    inline_calls,
    quiet_function,
    shape_only,
)
from tfjac.graph.facts import facts_of, is_identity
from tfjac.graph.nodes import LayerCall, OpType
from tfjac.graph.op_types import affine_inputs, linear_inputs
from tfjac.interception import Edit, intercept, values_at
from tfjac.interception.hooks import times_changed

SOFTMAX = "Softmax"
SATURATING = (SOFTMAX, "Sigmoid")


class Program:
    """The scores `[n, classes]` of a model, called while a graph is traced, and what was found in the last call.

    Attributes:
        scores: the tensor of the scores.
        facts: dict of what is remembered of the trace, also by who has no `Program`: "explained", what the scores are,
            for the user; "owners"; "embedded"; "inside".
        inputs: list of the tensors of the inputs.
        points: list of what attributions are for: an input of floating-point numbers, one of integers where it is made
            floating-point, or the result of an embedding.
        owners: list like `points` of the index of the input that each belongs to.
        embedded: list like `points` of whether each is the result of an embedding.
        inside: list like `points` of whether each is other than the input itself.
        rules: dict from names of ops, or ("inside", type) for ops in loops and branches, to rules.
    """

    def __init__(self, model, inputs, score_at=None, choose_rules=None):
        """Keep what is needed to call the model.

        Args:
            model: what the user gave.
            inputs: `Inputs`.
            score_at: selector of the node whose values are the scores; None for the result of the model.
            choose_rules: function of a `Program` that returns `rules`.
        """
        self._call, self._pack, self._score_at = _callable_of(model, inputs.nest), inputs.pack, score_at
        self._choose_rules, self.facts = choose_rules, {}
        self.__name__ = "scores"

    def __call__(self, *flat):
        """Return the scores of the inputs, a flat list of tensors."""
        self.inputs = [tf.identity(x) for x in flat]
        x = self._pack(self.inputs)
        if self._score_at is None:
            self.scores, explained = _before_saturation(_only(call_converted(self._call, x)))
        else:
            self.scores, explained = _only(values_at(self._call, self._score_at)(x)), f"{self._score_at!r}"
        _check_scores(self.scores)
        if self.scores.dtype.size < 4:  # those of mixed precision
            self.scores = tf.cast(self.scores, tf.float32)
        self._find_points()
        self.facts |= {"explained": explained, "owners": self.owners}
        self.facts |= {"embedded": self.embedded, "inside": self.inside}
        self.rules = self._choose_rules(self) if self._choose_rules else {}
        return self.scores

    def _find_points(self):
        """An input of numbers is a point itself; one that gradients do not pass, the embeddings that look it up.

        Integers are one behind where they are made floating-point, as pixels are by `Rescaling`. Beside embeddings they
        are masks.
        """
        points, by_value = [], Dependence(self.inputs, by_value=True)
        by_gradient, path = Dependence(self.inputs), by_value.path([self.scores])
        passed = set(by_gradient.sources_of(self.scores))
        for index, x in enumerate(self.inputs):
            found = [op.outputs[0] for op in path if _looks_up(op, index, by_value)] if index not in passed else []
            points += [(index, point, True, True) for point in found]
            points += [(index, x, False, False)] if x.dtype.is_floating and not found else []
        if not any(embedded for _, _, embedded, _ in points):
            numbered = enumerate(self.inputs)
            points += [(k, op.outputs[0], False, True) for k, x in numbered for op in path if _makes_floating(op, x)]
            points.sort(key=lambda point: point[0])
        self.owners, self.points, self.embedded, self.inside = ([each[k] for each in points] for k in range(4))

    def path(self):
        """List the ops from the points to the scores, by which values depend on values."""
        return between(self.points, [self.scores], constant=shape_only)

    def path_of_inputs(self):
        """List the ops from the inputs to the scores."""
        return between(self.inputs, [self.scores], constant=shape_only)

    def of_points(self, flat, points):
        """Return the scores of the inputs `flat` with `points` in the place of the points, and with the rules.

        Args:
            flat: flat list of tensors, the inputs.
            points: flat list of tensors like `points`.
        """
        self(*flat)
        flat, edits = list(flat), {}
        for number, (owner, inside, given) in enumerate(zip(self.owners, self.inside, points)):
            if inside:
                edits[lambda node, k=number: self._is_point(node, k)] = Edit(forward=lambda value, given=given: given)
            else:
                flat[owner] = given
        rules = {
            (lambda node, rule=rule: self.rules.get(_place_of(node)) is rule): rule
            for rule in dict.fromkeys(self.rules.values())
        }
        return intercept(self, edits, rules)(*flat) if edits or rules else self(*flat)

    def _is_point(self, node, number):
        return not node.place and node.tensor.name == self.points[number].name


def _place_of(node):
    return ("inside", node.op_type) if node.place else node.op.name


def chosen(scores, classes):
    """Return the score `[n]` of each row's class."""
    return scores if scores.shape.rank == 1 else tf.gather(scores, classes, axis=1, batch_dims=1)


class Kept(NamedTuple):
    """What is kept of a trace: the concrete function, and the `facts` of its program."""

    run: Any
    facts: dict


def compiled(kept, key, function, specs, program):
    """Return what is `Kept` of a function of tensors for `specs`, of an earlier call if there is one.

    Args:
        kept: dict of what is kept.
        key: what tells the function from others there.
        function: function of tensors that calls the program.
        specs: list of `tf.TensorSpec`.
        program: `Program`.
    """
    key = (*key, tuple((tuple(spec.shape), spec.dtype.name) for spec in specs))
    if key not in kept:
        kept[key] = Kept(quiet_function(function).get_concrete_function(*specs), program.facts)
    return kept[key]


_kept: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
"""From a model to what it was made of, and what is kept of its traces."""


def kept_of(model):
    """Return a dict of what is kept for a model: empty if it has other layers than before, or hooks were changed."""
    layers = tuple(map(id, flat_layers(model))) if isinstance(model, keras.Layer) else ()
    made_of = times_changed(), layers
    try:
        before, kept = _kept.setdefault(model, (made_of, {}))
        if before != made_of:
            kept = {}
            _kept[model] = made_of, kept
    except TypeError:  # an object that cannot be referred to weakly
        return {}
    return kept


def key_of(selector):
    """Return what tells a selector from others while the model lives; None if nothing does."""
    if isinstance(selector, LayerCall):
        return id(selector.layer), selector.call
    if isinstance(selector, keras.Layer):
        return id(selector)
    return selector if isinstance(selector, (str, OpType)) else None


def _looks_up(op, index, dependence):
    return (
        facts_of(op).takes == "rows by index"
        and op.outputs[0].dtype.is_floating
        and index in dependence.sources_of(op.inputs[1])
        and (op.inputs[0].dtype == tf.resource or not dependence.reaches(op.inputs[0]))
    )


def _makes_floating(op, x):
    """Return whether an op makes the integers x floating-point."""
    if facts_of(op).kind != "cast" or not op.outputs[0].dtype.is_floating or not op.inputs[0].dtype.is_integer:
        return False
    given = op.inputs[0]
    while given is not x and is_identity(given.op):
        given = given.op.inputs[0]
    return given is x


def passes_on(op):
    """Return whether an op passes values on as they are, though of another dtype."""
    facts = facts_of(op)
    return facts.elementwise is not None and facts.columns == "the same"


def _before_saturation(scores):
    """The logits where the scores are a softmax or sigmoid of these, whose gradients saturate, and what they are."""
    (scores,) = inline_calls([scores], draw_again=True)
    tensor = scores
    while passes_on(tensor.op):
        tensor = tensor.op.inputs[0]
    if tensor.op.type in SATURATING:
        return tensor.op.inputs[0], f"logits, before {tensor.op.type}"
    return scores, "the result of the model"


def _only(results):
    """The one tensor among the results of a model."""
    flat = [each for each in tf.nest.flatten(results) if each is not None]
    if len(flat) != 1:
        raise ValueError(
            "The model must return one tensor of scores: choose one of several by score_at, such as the name of a "
            f"layer, or pass a function that returns one. Received: {len(flat)} results"
        )
    return tf.convert_to_tensor(flat[0])


def _check_scores(scores):
    if scores.shape.rank not in (1, 2) or not scores.dtype.is_floating:
        raise ValueError(
            "The scores must be floating-point, [n] or [n, classes], one row for each example. Pass a function that "
            "makes them so, such as lambda x: tf.reduce_mean(model(x), axis=1), or choose a node by score_at. "
            f"Received: scores of shape {scores.shape}, {scores.dtype.name}"
        )


def _callable_of(model, x):
    """A function of the nest of the inputs, for a model, a loaded SavedModel, a signature of one, or a function."""
    if not callable(model):
        model = getattr(model, "serve", None) or getattr(model, "signatures", {}).get("serving_default") or model
    if not callable(model):
        raise TypeError(
            f"model must be a Keras model, a loaded SavedModel, or a function. Received: {described_value(model)}"
        )
    names = _names_of_signature(model)
    if names is None:
        return model if isinstance(model, keras.Layer) else lambda inputs: model(inputs)
    if isinstance(x, dict):
        wrong = next((name for name in x if name not in names), None)
        if wrong is not None:
            near = difflib.get_close_matches(wrong, names, 3) or names
            raise ValueError(f"The signature has other inputs: {', '.join(map(repr, near))}. Received: {wrong!r}")
        return lambda inputs: model(**inputs)
    if len(names) > 1:
        raise ValueError(
            f"Name the inputs of a signature of several, {dict.fromkeys(names, '…')}. Received: {described_value(x)}"
        )
    return lambda inputs: model(**{names[0]: inputs})


def _names_of_signature(model):
    """The names of the arguments of a function that takes these alone, as a signature of a SavedModel; else None."""
    try:
        positional, named = model.structured_input_signature
    except (AttributeError, TypeError):
        return None
    return list(named) if named and not positional else None


class Path:
    """The ops from the points to the scores of a `Program`, with custom gradients undone.

    Attributes:
        ops: list of them, inputs before consumers, of those whose results are floating-point numbers.
    """

    def __init__(self, program, method):
        """Undo the custom gradients on the way; raise ValueError if that cannot be done.

        Args:
            program: `Program`; its scores become those without custom gradients.
            method: what it is for, in messages.
        """
        try:
            (program.scores,) = as_computed([program.scores], program.points)
        except LookupError as error:
            raise ValueError(
                f"{method} cannot look into custom gradients in loops: use tfjac.explanations.integrated_gradients. "
                f"Received: {error}"
            ) from error
        self._dependence = Dependence(program.points, by_value=True)
        self.ops = [op for op in program.path() if any(y.dtype.is_floating for y in op.outputs)]

    def reaches(self, tensor):
        """Return whether a tensor depends on the points."""
        return self._dependence.reaches(tensor)

    def alive(self, op):
        """List the indices of the inputs that depend on the points."""
        return [index for index, below in enumerate(op.inputs) if self.reaches(below)]

    def is_linear(self, op):
        """Return whether the results are linear, or affine, in the inputs that depend on the points together."""
        alive, facts = self.alive(op), facts_of(op)
        if facts.list in ("item read", "items read"):  # that loops wrote
            return True
        if has_custom_gradient(op) or not all(op.inputs[index].dtype.is_floating for index in alive):
            return False
        if set(alive) <= set(affine_inputs(op)):
            return True
        outputs = [y for y in op.outputs if y.dtype.is_floating]
        found = [linear_inputs(y, self.reaches) for y in outputs]
        return all(each is not None for each in found) and set(alive) <= {k for each in found for k in each}
