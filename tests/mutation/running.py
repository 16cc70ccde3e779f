"""Which lines a check runs, and the code of a mutant in the place of that which runs."""

import contextlib
import gc
import pathlib
import resource
import signal
import sys
import types

import pytest


class Failure(Exception):
    """The mutant cannot be put in place."""


def lines_run(paths, run):
    """Return the pairs `(filename, line)` of the files `paths` that `run()` runs."""
    names, lines = {str(path) for path in paths}, set()

    def in_function(frame, event, argument):
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return in_function

    def in_call(frame, event, argument):
        return in_function if frame.f_code.co_filename in names else None

    sys.settrace(in_call)
    try:
        run()
    finally:
        sys.settrace(None)
    return lines


@contextlib.contextmanager
def put_in_place(filename, module_code):
    """Have all functions that `filename` defined run the code that they have in `module_code`.

    The functions stay the same objects: tables of rules, closures and other modules need not know.
    """
    others = {_key(code): code for code in _nested(module_code)}
    originals = [(function, function.__code__) for function in _functions_of(filename)]
    try:
        for function, code in originals:
            _give(function, others[_key(code)])
        yield
    finally:
        for function, code in originals:
            function.__code__ = code


def _give(function, code):
    try:
        function.__code__ = code
    except ValueError as other_closure:
        raise Failure(str(other_closure)) from None


_functions = {}


def _functions_of(filename):
    if filename not in _functions:
        _functions[filename] = [
            each
            for each in gc.get_objects()
            if isinstance(each, types.FunctionType) and each.__code__.co_filename == filename
        ]
    return _functions[filename]


def _nested(code):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _nested(constant)


def _key(code):
    return code.co_name, code.co_firstlineno


@contextlib.contextmanager
def memory_limited(further=4 << 30):
    """Have what asks for so many bytes more than the process has now fail: a mutant may ask for all there are."""
    taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + further, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def fails(run, seconds=60):
    """Return whether `run()` ends with an error, or takes longer than `seconds`."""

    def give_up(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        run()
    except (Exception, pytest.fail.Exception):
        return True
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return False
