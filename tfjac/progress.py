"""How far calls have come that take long: one line on a terminal or in a notebook, after two seconds, wiped at the end.

In logs there is nothing, unless a call asks for a line now and then. One line at a time: of nested calls the outermost
has it.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

PATIENCE = 2.0
"""Seconds before a line is shown."""

IN_LOGS = 10.0
"""Seconds between lines in logs, for calls that write some."""

_EACH = 0.2
"""Seconds between two looks at how far a call has come."""

_turn = threading.Lock()


class Progress:
    """How far a call has come; a thread shows it.

    Args:
        title: the name of the call.
    """

    def __init__(self, title: str) -> None:
        self._title, self._began, self._known = title, time.monotonic(), ""

    def at(self, done: int | None = None, total: int | None = None, of: str = "", **numbers: float) -> None:
        """Note how far it is.

        Args:
            done, total: so many of so many.
            of: what they are, in the plural; or what is being done, where nothing is counted.
            **numbers: to be shown beside that.
        """
        count = of if done is None else f"{done}{f' of {total}' if total else ''} {of}".rstrip()
        known = [count, *(f"{n} {v:.4g}" for n, v in numbers.items())]
        self._known = "".join(f", {each}" for each in known if each)

    def text(self) -> str:
        return f"{self._title}: {time.monotonic() - self._began:.0f} s{self._known}"


@contextlib.contextmanager
def shown(title: str, is_quiet: bool = False, in_logs: bool = False) -> Iterator[Progress]:
    """Show how far the body of `with` has come, if it takes longer than two seconds.

    Args:
        title: the name of the call.
        is_quiet: whether to show nothing.
        in_logs: whether to write a line each ten seconds where there is no terminal.

    Yields:
        A `Progress`, to be told how far it is.
    """
    progress, stream = Progress(title), sys.stderr
    on_terminal = _is_watched(stream)
    if is_quiet or not (on_terminal or in_logs) or not _turn.acquire(blocking=False):
        yield progress
        return
    ended = threading.Event()
    show = _rewrite if on_terminal else _write
    thread = threading.Thread(target=show, args=(progress, stream, ended), name="tfjac-progress", daemon=True)
    try:
        thread.start()
        yield progress
    finally:
        ended.set()
        thread.join()
        _turn.release()


def _is_watched(stream: Any) -> bool:
    """Return whether a line can be written over where it is seen: on terminals, and in notebooks."""
    if type(stream).__module__.startswith("ipykernel."):
        return True
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _rewrite(progress, stream, ended):
    """Keep one line up to date; wipe it at the end."""
    last = ""
    wait = PATIENCE
    with contextlib.suppress(OSError, ValueError):  # a terminal may be closed
        while not ended.wait(wait):
            text, wait = progress.text(), _EACH
            if text != last:
                stream.write("\r" + text.ljust(len(last)))
                stream.flush()
                last = text
        if last:
            stream.write("\r" + " " * len(last) + "\r")
            stream.flush()


def _write(progress, stream, ended):
    """Write a line now and then."""
    with contextlib.suppress(OSError, ValueError):
        while not ended.wait(IN_LOGS):
            stream.write(progress.text() + "\n")
            stream.flush()
