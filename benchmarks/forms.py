"""How far the forms that the CPU kernels choose fall behind the faster ones: `python -m benchmarks.forms`.

`custom_ops/common/forms.h` decides by multiply-adds whether a factor is taken in rows or in pairs. Here both
are timed, and what is chosen, for networks of several sizes, outputs and positions of use, in one thread of each
instruction set that this processor has. Told are the worst cases, and how many are more than 1.3 times behind.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess

from build_tools.programs import build_programs

RESULTS = pathlib.Path(__file__).parent / "results" / "forms.json"
AIM = 1.3
"""What is chosen should take at most so many times as long as the faster form."""

KEPT = 40
"""Of the worst cases of each instruction set, in the results."""


def measured(program: pathlib.Path) -> list[dict]:
    """Run the grid; return its cases with `behind`, the time of what is chosen over that of the faster form."""
    finished = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True)
    cases = [json.loads(line) for line in finished.stdout.splitlines()]
    for case in cases:
        case["behind"] = case["chosen"] / min(case["chosen"], case["rows"], case["pairs"])
    return sorted(cases, key=lambda case: -case["behind"])


def summary(cases: list[dict]) -> dict:
    """Say for each op how the choices do: cases, those behind by more than the aim, median and worst."""
    ops = sorted({case["op"] for case in cases})
    behind = {op: [case["behind"] for case in cases if case["op"] == op] for op in ops}
    return {
        op: {
            "cases": len(ratios),
            "missed": sum(ratio > AIM for ratio in ratios),
            "median": statistics.median(ratios),
            "worst": max(ratios),
        }
        for op, ratios in behind.items()
    }


def line_of(case: dict) -> str:
    sizes = f"{'-'.join(map(str, case['widths'])):>12}, n = {case['n']:4}, m = {case['m']:2}, t = {case['t']:2}"
    times = ", ".join(f"{form} {1e3 * case[form]:8.3f}" for form in ("chosen", "rows", "pairs"))
    return f"{case['op']:18} {case['dtype']} {sizes}: {case['behind']:5.2f} times behind ({times} ms)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instruction-set", nargs="+", help="only these (default: all that this processor has)")
    parser.add_argument("--worst", type=int, default=10, help="cases to print (default 10)")
    arguments = parser.parse_args()
    record = {"date": datetime.date.today().isoformat(), "aim": AIM}
    for processor, name, program in build_programs(pathlib.Path(__file__).with_suffix(".cc"), ("-O3", "-DNDEBUG")):
        if program is None or name not in (arguments.instruction_set or [name]):
            continue
        cases = measured(program)
        record[f"{processor}, {name}"] = {"summary": summary(cases), "worst": cases[:KEPT]}
        for op, numbers in summary(cases).items():
            said = f"{numbers['missed']} of {numbers['cases']} missed, median {numbers['median']:.2f}"
            print(f"{name}: {op}: worst {numbers['worst']:.2f} (aim {AIM}), {said}")
        print(*map(line_of, cases[: arguments.worst]), sep="\n", flush=True)
    if not arguments.instruction_set:
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
        print("written:", RESULTS)


if __name__ == "__main__":
    main()
