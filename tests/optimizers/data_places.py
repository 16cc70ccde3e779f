"""Where a function of residuals may keep its data: each place with the function, and how to change the data there."""

import collections
import dataclasses
import functools
import itertools
import types

import numpy as np
import scipy.sparse
import tensorflow as tf

OLD, NEW = [1.0, 2.0, 6.0], [4.0, 4.0, 5.0]


class Holder:
    """Data where a class, an instance, a slot or a property may keep them."""

    shared = None
    __slots__ = ("__dict__", "slot")

    @property
    def computed(self):
        return self.hidden

    def residuals(self):
        return self.b - tf.constant(self.data, tf.float64)

    def __call__(self):
        return self.residuals()


@dataclasses.dataclass
class Config:
    data: list


class Box:
    def __init__(self, value):
        self.value = value


MODULE_DATA = OLD
HELPER = types.ModuleType("helper")


def in_namespace(b):
    space = types.SimpleNamespace(data=OLD)
    return lambda: b - tf.constant(space.data, tf.float64), lambda: setattr(space, "data", NEW)


def in_class_attribute(b):
    Holder.shared = OLD
    return lambda: b - tf.constant(Holder.shared, tf.float64), lambda: setattr(Holder, "shared", NEW)


def in_instance_attribute(b):
    holder = Holder()
    holder.b, holder.data = b, OLD
    return holder.residuals, lambda: setattr(holder, "data", NEW)


def in_callable_object(b):
    holder = Holder()
    holder.b, holder.data = b, OLD
    return holder, lambda: setattr(holder, "data", NEW)


def in_slot(b):
    holder = Holder()
    holder.slot = OLD
    return lambda: b - tf.constant(holder.slot, tf.float64), lambda: setattr(holder, "slot", NEW)


def in_property(b):
    holder = Holder()
    holder.hidden = OLD
    return lambda: b - tf.constant(holder.computed, tf.float64), lambda: setattr(holder, "hidden", NEW)


def in_other_module(b):
    HELPER.data = OLD
    return lambda: b - tf.constant(HELPER.data, tf.float64), lambda: setattr(HELPER, "data", NEW)


def in_global(b):
    globals()["MODULE_DATA"] = OLD
    return lambda: b - tf.constant(MODULE_DATA, tf.float64), lambda: globals().update(MODULE_DATA=NEW)


def in_closure(b):
    data = OLD

    def change():
        nonlocal data
        data = NEW

    return lambda: b - tf.constant(data, tf.float64), change


def in_list_of_objects(b):
    boxes = [Box(value) for value in OLD]

    def change():
        for box, value in zip(boxes, NEW):
            box.value = value

    return lambda: tf.stack([b - box.value for box in boxes]), change


def in_dataclass(b):
    config = Config(list(OLD))
    return lambda: b - tf.constant(config.data, tf.float64), lambda: config.data.__setitem__(slice(None), NEW)


def in_deque(b):
    queue = collections.deque(OLD, maxlen=3)
    return lambda: b - tf.constant(list(queue), tf.float64), lambda: queue.extend(NEW)


def in_dict(b):
    table = {"deep": [{"data": OLD}]}
    return lambda: b - tf.constant(table["deep"][0]["data"], tf.float64), lambda: table["deep"][0].update(data=NEW)


def in_array(b):
    array = np.array(OLD)
    return lambda: b - array, lambda: array.__setitem__(slice(None), NEW)


def in_sparse_matrix(b):
    matrix = scipy.sparse.csr_matrix(np.diag(OLD))
    return lambda: b - matrix.diagonal(), lambda: matrix.setdiag(NEW)


def in_iterator(b):
    stream = itertools.chain([OLD], itertools.repeat(NEW))
    return lambda: b - tf.constant(next(stream), tf.float64), lambda: None


def in_default(b):
    def residuals(data=OLD):
        return b - tf.constant(data, tf.float64)

    return residuals, lambda: setattr(residuals, "__defaults__", (NEW,))


def in_partial(b):
    data = list(OLD)
    residuals = functools.partial(lambda b, data: b - tf.constant(data, tf.float64), b, data)
    return residuals, lambda: data.__setitem__(slice(None), NEW)


def in_eager_tensor(b):
    space = types.SimpleNamespace(data=tf.constant(OLD * 100, tf.float64))  # too many to be written into the graph
    return lambda: b - space.data, lambda: setattr(space, "data", tf.constant(NEW * 100, tf.float64))


def in_variable(b):
    data = tf.Variable(OLD, dtype=tf.float64)
    return lambda: b - data, lambda: data.assign(NEW)


def in_inner_function(b):
    space = types.SimpleNamespace(data=OLD)
    return lambda: tf.function(lambda: b - tf.constant(space.data, tf.float64))(), lambda: setattr(space, "data", NEW)


def in_branch(b):
    """A loop or branch has a new name in each trace."""
    space = types.SimpleNamespace(data=OLD)

    def residuals():
        return tf.cond(
            b > -100.0, lambda: b - tf.constant(space.data, tf.float64), lambda: tf.ones([3], tf.float64) * b
        )

    return residuals, lambda: setattr(space, "data", NEW)


def in_custom_gradient(b):
    """Its Python function may be another each time."""
    space = types.SimpleNamespace(data=OLD)

    @tf.custom_gradient
    def minus_data(b):
        return b - tf.constant(space.data, tf.float64), tf.reduce_sum

    return lambda: minus_data(tf.identity(b)), lambda: setattr(space, "data", NEW)


PLACES = [value for name, value in list(globals().items()) if name.startswith("in_")]
