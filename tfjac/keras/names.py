"""The text by which `model.compile` finds the optimizer, through the objects that Keras lets packages add."""

import keras

from tfjac.keras.levenberg_marquardt import LevenbergMarquardt

NAMES = ("levenberg_marquardt", "LevenbergMarquardt")

keras.saving.get_custom_objects().update(dict.fromkeys(NAMES, LevenbergMarquardt))
