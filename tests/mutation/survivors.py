"""The list of mutants that no case can tell from the rule, or does, with the reason for each."""

import functools
import pathlib

PATH = pathlib.Path(__file__).with_name("survivors.txt")


@functools.cache
def known():
    """Read the list: the `places` of all mutants on it."""
    found, place = set(), None
    for line in PATH.read_text().splitlines():
        if line.startswith("    "):
            found.add((*place, line.strip()))
        elif line and not line.startswith("#"):
            place = tuple(line.split(":")[0].split(" "))
    return found


def places(module, mutants):
    """The set of what names mutants of a module in the list: module, function, text."""
    return {(module, mutant.function, str(mutant)) for mutant in mutants}


def compare(found, existing, tried):
    """Print which survivors are not on the list, and which on it were caught or are gone, and return the exit status.

    Args:
        found: for each module the `Mutant`s that survived.
        existing: the `places` of all mutants of these modules.
        tried: those of which all mutants were tried.
    """
    alive = set().union(*(places(module, mutants) for module, mutants in found.items()))
    listed = {place for place in known() if place[0] in found}
    wrong = {"not listed": alive - listed, "listed, but caught": listed & tried - alive, "gone": listed - existing}
    for what, some in wrong.items():
        for module, function, text in sorted(some):
            print(f"{what}: {module} {function}\n    {text}")
    return int(any(wrong.values()))
