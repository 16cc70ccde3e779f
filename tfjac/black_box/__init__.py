"""Functions outside TensorFlow, with gradients from evaluations: simulators, NumPy, measurements."""

from tfjac.black_box import estimators
from tfjac.black_box.external import External, external
from tfjac.black_box.measurement import Counts, MeasurementFailed
