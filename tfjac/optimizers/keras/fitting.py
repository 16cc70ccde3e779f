"""What an optimizer can know of the `fit` that it is called by: Keras itself tells it nothing."""

import inspect

import keras


def callbacks_of_fit():
    """Return the `CallbackList` of the `fit` that is calling, found among the local names of the callers, or None."""
    frame = inspect.currentframe()
    while frame is not None:
        callbacks = frame.f_locals.get("callbacks")
        if isinstance(callbacks, keras.callbacks.CallbackList):
            return callbacks
        frame = frame.f_back
    return None
