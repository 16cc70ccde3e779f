"""The mark of ops that an edit of tfjac has put into a graph: what put them there, for those who ask why."""

from tfjac.graph import _private

_MARK = "_tfjac_edit"


def mark_op(op, text):
    """Mark an op as that of an edit; `text` is what to call it, such as "a tfjac.hook on layer 'dense'"."""
    _private.set_text_attribute(op, _MARK, text)


def edit_mark(op):
    """Return what to call the edit that has put `op` there, or changes its gradient; "" where there is none."""
    return _private.text_attribute(op, _MARK) or ""


def copy_mark(op, copy):
    """Mark `copy` as `op` is marked."""
    if edit_mark(op):
        mark_op(copy, edit_mark(op))
