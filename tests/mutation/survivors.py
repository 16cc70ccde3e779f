"""The list of mutants that no case can tell from the rule, or does, with the reason for each."""

import pathlib

PATH = pathlib.Path(__file__).with_name("survivors.txt")


def known():
    """Read the list: for each module and function the set of its mutants, as text."""
    found, place = {}, None
    for line in PATH.read_text().splitlines():
        if line.startswith("    "):
            found.setdefault(place, set()).add(line.strip())
        elif line and not line.startswith("#"):
            place = tuple(line.split(":")[0].split(" "))
    return found


def compare(found, complete):
    """Print which survivors are not on the list, and which on it were caught, and return the exit status.

    Args:
        found: for each module the `Mutant`s that survived.
        complete: whether all mutants of these modules were tried.
    """
    listed = {(*place, text) for place, texts in known().items() if place[0] in found for text in texts}
    alive = {(module, mutant.function, str(mutant)) for module, mutants in found.items() for mutant in mutants}
    for module, function, text in sorted(alive - listed):
        print(f"not listed: {module} {function}\n    {text}")
    caught = sorted(listed - alive) if complete else []
    for module, function, text in caught:
        print(f"listed, but caught: {module} {function}\n    {text}")
    return int(bool(alive - listed or caught))
