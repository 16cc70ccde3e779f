"""What all explanations share: classes, scores, points and gradients, in parts of the batch."""

import functools

import numpy as np
import tensorflow as tf

from tfjac.arguments import described_value, positive_integer
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.inputs import Inputs, parts, specs_of
from tfjac.explanations.program import Program, chosen, compiled, kept_of, key_of


class Explained:
    """A batch of examples, the model, and the class of each example that is explained.

    Attributes:
        inputs: `Inputs`.
        classes: `[n]` integers.
        scores: `[n]`, the scores of these.
        owners: list of the index of the input that each point belongs to.
    """

    def __init__(self, model, x, class_index=None, score_at=None, batch_size=64):
        """Check the arguments that all explanations have, and compute the scores."""
        self.inputs, self.batch_size = Inputs(model, x), positive_integer("batch_size", batch_size)
        self._model, self._score_at, self._kept_here = model, score_at, {}
        kept = self.compiled(["scores"], lambda program, *flat: program(*flat))
        (all_scores,) = self.in_parts(kept.run, self.inputs.arrays)
        if len(all_scores) != self.inputs.count:
            raise ValueError(
                "The scores must have one row for each example: give x a batch axis, x[None] for one example. "
                f"Received: {len(all_scores)} rows of scores for {self.inputs.count} of x"
            )
        self.explained, self.owners, self._embedded, self._inside = (
            kept.facts[key] for key in ("explained", "owners", "embedded", "inside")
        )
        self.classes = _classes(class_index, all_scores)
        self.scores = all_scores.reshape(len(all_scores), -1)[np.arange(len(all_scores)), self.classes]

    def compiled(self, key, function, specs=None, choose_rules=None):
        """Return `Kept` for a function of a `Program` and tensors; `key` tells the function from others.

        With None in the key, that of a selector that is a function, it is kept for this explanation alone.
        """
        structure = repr(tf.nest.map_structure(lambda _: None, self.inputs.nest))
        program = Program(self._model, self.inputs, self._score_at, choose_rules)
        key = (*key, "" if self._score_at is None else key_of(self._score_at), structure)
        kept = self._kept_here if None in key else kept_of(self._model)
        specs = self.inputs.specs() if specs is None else specs
        return compiled(kept, key, functools.partial(function, program), specs, program)

    def in_parts(self, function, arrays, rows=None):
        """Return the arrays that a concrete function returns for a flat list of arrays, `rows` at a time."""
        found = [
            [result.numpy() for result in tf.nest.flatten(function(*(tf.constant(each[part]) for each in arrays)))]
            for part in parts(len(arrays[0]), rows or self.batch_size)
        ]
        return [np.concatenate(results) for results in zip(*found)]

    # -------------------------------------------------------------- what gradients are taken by

    def points(self, arrays=None):
        """Return a flat list of arrays: inputs of numbers, as floating-point ones, and the embeddings of the others.

        Raises:
            TypeError: if there is none.
        """
        arrays = self.inputs.arrays if arrays is None else arrays
        if not self.owners:
            raise TypeError(
                "Integers have no gradient, no embedding looks these up, and the model does not make them "
                "floating-point. If they are measurements, such as pixels, pass "
                "x.astype('float32'). shap.KernelExplainer takes integers as they are. "
                f"Received: {', '.join(map(described_value, self.inputs.arrays))}"
            )
        if not any(self._inside):
            return [arrays[owner] for owner in self.owners]

        def embed(program, *flat):
            program(*flat)
            return program.points

        return self.in_parts(self.compiled(["points"], embed).run, arrays)

    def gradients(self, points, classes, arrays=None, key=("gradients",), choose_rules=None):
        """Return the gradients of the score of each row's class by the points, a flat list of arrays.

        Args:
            points: flat list of arrays `[rows, ...]`.
            classes: `[rows]` integers.
            arrays: flat list of the inputs of these rows.
            key: what tells the rules from others.
            choose_rules: as in `Program`.
        """
        count = len(points)

        def gradients(program, *flat):
            points, classes, inputs = flat[:count], flat[count], flat[count + 1 :]
            scores = chosen(program.of_points(inputs, points), classes)
            found = tf.gradients(scores, points)
            if all(gradient is None for gradient in found):
                raise ValueError(
                    "No gradient of the scores reaches the inputs, so that nothing can be attributed to them: "
                    "tfjac.explain_gradient tells where the path breaks. shap.KernelExplainer needs no gradient"
                )
            return [tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for g, x in zip(found, points)]

        given = [*points, classes, *arrays]
        return self.in_parts(self.compiled(key, gradients, specs_of(given), choose_rules).run, given)

    def attributions(self, contributions):
        """Return a nest like the inputs from a list of contributions like the points; embeddings are summed up."""
        found = [None] * len(self.inputs.arrays)
        for owner, embedded, contribution in zip(self.owners, self._embedded, contributions):
            contribution = contribution.sum(axis=-1) if embedded else contribution
            found[owner] = contribution if found[owner] is None else found[owner] + contribution
        return self.inputs.pack(found)

    def baseline_points(self, baseline):
        """Return the points of a baseline: zeros if it is None, for embeddings too."""
        if baseline is None:
            return [np.zeros_like(point) for point in self.points()]
        return self.points(self.inputs.baseline(baseline))

    def scores_at(self, points):
        """Return the scores `[n]` of the classes, with these points in the place of those of the inputs."""
        count = len(points)

        def scores(program, *flat):
            return chosen(program.of_points(flat[count + 1 :], flat[:count]), flat[count])

        given = [*points, self.classes, *self.inputs.arrays]
        return self.in_parts(self.compiled(["scores at"], scores, specs_of(given)).run, given)[0]

    def explanation(self, method, attributions, **more):
        return Explanation(method, attributions, self.inputs.nest, self.classes, self.scores, self.explained, **more)

    def adding_up(self, method, contributions, baseline_scores=None, **more):
        """Return the `Explanation` of a method whose contributions add up to the change of the scores."""
        wanted = self.scores - (0.0 if baseline_scores is None else baseline_scores)
        gap = sum(each.reshape(len(each), -1).sum(axis=1) for each in contributions) - wanted
        attributions = self.attributions(contributions)
        return self.explanation(method, attributions, baseline_scores=baseline_scores, gap=gap, **more)


def _classes(class_index, scores):
    """Return `[n]` integers: the class that is explained of each example."""
    count, number = len(scores), 1 if scores.ndim == 1 else scores.shape[1]
    if class_index is None:
        return np.zeros(count, int) if scores.ndim == 1 else scores.argmax(axis=1)
    classes = np.asarray(class_index)
    if classes.dtype.kind not in "iu" or classes.shape not in ((), (count,)):
        raise ValueError(
            f"class_index must be an integer, or one for each of the {count} examples; None is the predicted class. "
            f"Received: class_index={described_value(class_index)}"
        )
    wrong = np.extract((classes < 0) | (classes >= number), classes)
    if wrong.size:
        raise ValueError(
            f"class_index must lie between 0 and {number - 1}, as the scores have {number} columns. "
            f"Received: class_index={int(wrong[0])}"
        )
    return np.broadcast_to(classes, (count,)).astype(int)
