"""Ctrl-C, while a minimisation or a training goes on."""

import signal
import threading
from typing import Any


class Interrupts:
    """Ctrl-C, noted rather than raised, where no other code looks after it; pressed again, it is raised at once.

    What was noted and not seen to by the end is raised there.

    Attributes:
        pending: whether it was pressed.
    """

    def __init__(self) -> None:
        self.pending, self._ours = False, False

    def __enter__(self) -> "Interrupts":
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._ours = True
        return self

    def __exit__(self, *error: Any) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.pending and error == (None, None, None):
            raise KeyboardInterrupt

    def _note(self, *_: Any) -> None:
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True
