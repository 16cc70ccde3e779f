"""A callback of Keras that shows gradients at layers while a model is trained."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfjac.graph import flat_layers
from tfjac.interception.handlers import summary
from tfjac.interception.hooks import hook
from tfjac.types import Logs, Path


class GradientSummaries(keras.callbacks.Callback):
    """Writes histograms and norms of the gradients at what layers return for TensorBoard, during `fit`.

    The layers are hooked while `fit` runs, and not afterwards.
    """

    def __init__(self, log_dir: Path, layers: Sequence[keras.Layer | str] | None = None, every: int = 1) -> None:
        """Take the arguments.

        Args:
            log_dir: folder for the summaries.
            layers: list of layers, or of their names; all that have weights, nested ones too, where left out.
            every: write at each step of the optimizer whose number is divisible by this.

        Raises:
            ValueError: at the start of `fit`, if the model was not built, or has no layers with weights.
        """
        super().__init__()
        self.log_dir, self.layers, self.every = log_dir, layers, every

    def on_train_begin(self, logs: Logs = None) -> None:
        """Hook the layers."""
        self._writer = tf.summary.create_file_writer(str(self.log_dir))
        handler = summary(self._writer, self.model.optimizer.iterations, self.every)
        self._hooks = [hook(layer, backward=handler) for layer in self._chosen()]

    def on_train_end(self, logs: Logs = None) -> None:
        """Remove the hooks."""
        for each in self._hooks:
            each.remove()
        self._writer.close()

    def _chosen(self):
        if self.layers is None:
            layers = [layer for layer in flat_layers(self.model) if not isinstance(layer, keras.Model)]
            found = [layer for layer in layers if layer.weights and layer.built]
            if not (found and self.model.built):
                raise ValueError(
                    "GradientSummaries hooks layers that were built: call the model on a batch before, or begin it "
                    f"with keras.Input. Received: model {self.model.name!r}, {len(found)} layers of it were"
                )
            return found
        return [self.model.get_layer(layer) if isinstance(layer, str) else layer for layer in self.layers]
