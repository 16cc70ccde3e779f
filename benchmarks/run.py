"""Ask the benchmark questions and write down the answers.

python -m benchmarks.run                                  # everything: minutes
python -m benchmarks.run --question mlp-jacobian lm-step  # some
python -m benchmarks.run --quick                          # small sizes, few rounds: does it work?
python -m benchmarks.run --list
"""

import argparse
import dataclasses
import logging
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from rich.console import Console

from benchmarks import report
from benchmarks.floors import Machine, machine
from benchmarks.harness import measure
from benchmarks.questions import Question, all_questions, wrong_answers


def ask(question: Question, quick: bool, speeds: Machine | None, rounds: int) -> list[dict]:
    """Measure every case of a question; return the described entries."""
    entries = []
    for case in question(quick):
        if quick:  # the aims are about the full sizes
            case = dataclasses.replace(case, targets={})
        timings = measure(case.candidates, rounds)
        failed = [name for name, timing in timings.items() if timing.error]
        entries.append(report.describe(case, timings, speeds, wrong_answers(case, failed)))
    return entries


def summary(question: Question) -> str:
    """Return the first line of the question's docstring."""
    return (question.__doc__ or question.__name__).strip().splitlines()[0]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Time tfjac against its peers.")
    parser.add_argument("--question", nargs="+", metavar="NAME", help="ask only these (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes and three rounds; results are not kept")
    parser.add_argument("--rounds", type=int, default=15, help="samples per candidate (default 15)")
    parser.add_argument("--output", type=pathlib.Path, help="folder for JSON and plots (default benchmarks/results)")
    parser.add_argument("--list", action="store_true", help="list the questions and stop")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    logging.getLogger("tensorflow").setLevel(logging.CRITICAL)  # peers that fail do so at length
    questions = all_questions()
    console = Console(width=None if sys.stdout.isatty() else 140)
    if options.list:
        for name, question in questions.items():
            console.print(f"[bold]{name}[/bold]: {summary(question)}")
        return 0
    names = options.question or list(questions)
    unknown = [name for name in names if name not in questions]
    if unknown:
        console.print(f"There is no such question; choose from {', '.join(questions)}. Received: {unknown}")
        return 2
    folder = options.output or (None if options.quick else report.RESULTS)
    speeds = None
    for name in names:
        speeds = machine(speeds, options.quick)
        what = summary(questions[name])
        entries = ask(questions[name], options.quick, speeds, 3 if options.quick else options.rounds)
        report.print_table(name, what, entries, console)
        if folder:
            data = {"question": what, "environment": report.environment(speeds), "cases": entries}
            console.print(
                "written:", report.save_json(name, data, folder), report.save_plot(name, what, entries, folder)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
