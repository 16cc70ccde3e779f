"""The method as a Keras optimizer, what it refuses, and a callback that shows how it goes."""
