"""What runs at the same time: ops that need not wait for each other."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def run_side_by_side(calls: Iterable[tf.Operation]) -> None:
    """Let ops of the current graph run at once, in a `tf.function` as well.

    It has them run in the order in which they were made otherwise, if there is but one assertion in each.

    Args:
        calls: ops, such as calls of functions, of which none depends on what another does.
    """
    order: Any = getattr(tf.compat.v1.get_default_graph(), "experimental_acd_manager", None)
    for call in calls if order is not None else ():
        order.run_independently(call)
