"""Options in a Keras configuration: by name, or as objects that Keras serialises."""

import keras


def serialized(options):
    """Return a dict of names, or of objects serialised, from one of names and objects."""
    return {
        key: value if isinstance(value, str) else keras.saving.serialize_keras_object(value)
        for key, value in options.items()
    }


def deserialized(config, custom_objects=None):
    """Return a configuration with the objects that `serialized` made dicts of."""
    objects = {
        key: keras.saving.deserialize_keras_object(value, custom_objects=custom_objects)
        for key, value in config.items()
        if isinstance(value, dict)
    }
    return {**config, **objects}
