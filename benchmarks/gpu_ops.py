"""The CUDA launchers against the GPU's own limits and libraries.

    python -m benchmarks.gpu_ops [WORDS] [--out FOLDER] [--rehearse]

WORDS: only questions whose name contains them. Needs a CUDA GPU, PyTorch, and nvcc or a library that TFJAC_CUDA_LIBRARY
names; neither TensorFlow nor tfjac. Every result is compared with PyTorch's in float64 first, and what is wrong is not
timed. Times are medians of CUDA events on one stream, ours and the others in turn. What counts are the ratios: beside
each stands the one aimed at. In float32 PyTorch is timed without TF32, which the aim is held against, and with it. The
results go to FOLDER/gpu_ops.json; to benchmarks/results/ unless given, with the device and the date in the file's name.

`--rehearse` asks the questions with small
sizes on the host, of the emulated launchers: it shows that they can be asked, and its times mean nothing.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys

import numpy as np

from benchmarks.gpu_harness import TOLERANCE, Bench, Rehearsal, relative_error
from benchmarks.gpu_questions import QUESTIONS
from build_tools.settings import ROOT
from tests.gpu.running import how_it_ended

RESULTS = pathlib.Path(__file__).parent / "results"
WITH_AND_WITHOUT = {"float32": {"": False, " with TF32": True}, "float64": {"": False}}  # what is timed: TF32 or not
BROKEN = "the process ended, or the GPU answered no more"


def check(bench, task, dtype) -> dict:
    """Run it once; give how far the results are from what is expected, or that they are wrong."""
    tolerance = TOLERANCE[np.dtype(dtype).name]
    task.ours()
    bench.wait()
    expected = task.expected()
    error = max((relative_error(x, y) for x, y in zip(task.results, expected)), key=lambda e: (e != e, e))
    found = {"relative error": error}
    if not error <= tolerance:
        return found | {"error": f"WRONG: relative error {error:.1e}, more than {tolerance:.0e}"}
    if not task.is_floor:
        for name, allowed in WITH_AND_WITHOUT[np.dtype(dtype).name].items():
            with bench.tf32(allowed):
                found[f"relative error of the reference{name}"] = relative_error(task.reference(), expected[0])
    return found


def time_all(bench, task, aim, dtype) -> dict:
    """Time ours and the others in turn; give the ratios."""
    modes = WITH_AND_WITHOUT[np.dtype(dtype).name]
    others = task.also if task.is_floor else {"reference": task.reference} | task.also
    calls = {f"{other}{mode}": (call, allowed) for mode, allowed in modes.items() for other, call in others.items()}
    candidates = {"ours": task.ours} | {name: call for name, (call, _) in calls.items()}
    timings = bench.compare(candidates, [name for name, (_, allowed) in calls.items() if allowed])
    seconds = {name: timing["seconds"] for name, timing in timings.items()}
    ours = seconds.pop("ours")
    if task.is_floor:
        floors = {f"reference{mode}": task.reference(allowed) for mode, allowed in modes.items()}
        depends = len(set(floors.values())) > 1  # on TF32, which a copy does not
        seconds |= floors if depends else {"reference": floors["reference"]}
    ratios = {name: ours / other for name, other in seconds.items()}
    return timings["ours"] | {"others": seconds, "ratios": ratios, "reached": ratios["reference"] <= aim}


def answer(bench, question, dtype) -> dict:
    """Check and time one question; give a line of the results, with an error if it cannot be answered."""
    name = np.dtype(dtype).name
    line = {"name": question.name, "dtype": name, "aim": question.aim, "reference": question.reference}
    try:
        with bench.on_stream():
            task = question.task(bench, dtype)
            bench.wait()
            line |= check(bench, task, dtype)
            bench.wait()
            return line if "error" in line else line | time_all(bench, task, question.aim, dtype)
    except Exception as error:  # one question that cannot be answered does not stop the others
        return line | {"error": f"{type(error).__name__}: {error}"[:300]}


def told(line, times_count=True) -> str:
    """Say a line of the results in words."""
    start = f"{line['name']:56} {line['dtype']:8}"
    if "error" in line:
        return f"{start} {line['error']}; aim {line['aim']:.2f}"
    if not times_count:
        return f"{start} right, error {line['relative error']:.0e}"
    others = ", ".join(f"{name} {ratio:.2f}" for name, ratio in line["ratios"].items() if name != "reference")
    return (
        f"{start} error {line['relative error']:.0e}, {line['seconds'] * 1e3:9.3f} ms, "
        f"ratio {line['ratios']['reference']:.2f}, aim {line['aim']:.2f} "
        f"{'reached' if line['reached'] else 'MISSED'}: {line['reference']}"
        f"{f' ({others})' if others else ''}"
    )


def ask(record_file, wanted, bench) -> None:
    """Ask what is not in the record yet, and keep it question by question; return early if the GPU answers no more."""
    record = json.loads(record_file.read_text()) if record_file.exists() else {"questions": []}
    record |= {"device": bench.name, "date": datetime.date.today().isoformat(), "torch": bench.torch.__version__}
    lines = record["questions"]
    asked = {(line["name"], line["dtype"]) for line in lines}
    for question in QUESTIONS:
        for dtype in ("float32", "float64"):
            if wanted not in question.name or (question.name, dtype) in asked:
                continue
            begun = {"name": question.name, "dtype": dtype, "aim": question.aim, "reference": question.reference}
            lines.append(begun | {"error": BROKEN})
            record_file.write_text(json.dumps(record, indent=1) + "\n")
            lines[-1] = answer(bench, question, np.dtype(dtype).type)
            record["rates"] = record.get("rates", {}) | bench.rates
            print(told(lines[-1], bench.times_count), flush=True)
            record_file.write_text(json.dumps(record, indent=1) + "\n")
            try:
                bench.wait()
            except Exception as error:
                print(f"the GPU's context is broken, the rest in another process: {error}".splitlines()[0], flush=True)
                return
            bench.torch.cuda.empty_cache()


def main(arguments=None) -> int:
    """Ask the questions in as many processes as it takes; give 1 if one was not answered, or wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wanted", nargs="?", default="", help="only questions whose name contains this")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="the folder for the results")
    parser.add_argument("--rehearse", action="store_true", help="on the host, with small sizes")
    parser.add_argument("--record", type=pathlib.Path, help=argparse.SUPPRESS)  # in the processes that ask
    given = parser.parse_args(arguments)
    if given.record:
        ask(given.record, given.wanted, Rehearsal() if given.rehearse else Bench())
        return 0
    given.out.mkdir(parents=True, exist_ok=True)
    record_file = given.out / "gpu_ops.json"
    record_file.unlink(missing_ok=True)
    wanted = [question for question in QUESTIONS if given.wanted in question.name]
    lines, before = [], -1
    while len(lines) < 2 * len(wanted) and len(lines) > before:
        before = len(lines)
        options = [given.wanted, "--record", record_file, *(["--rehearse"] if given.rehearse else [])]
        run = subprocess.run([sys.executable, "-m", "benchmarks.gpu_ops", *map(str, options)], cwd=ROOT)
        lines = json.loads(record_file.read_text())["questions"] if record_file.exists() else []
        if run.returncode:
            print(f"the process that asks: {how_it_ended(run.returncode)}", flush=True)
            print(*(told(line) for line in lines[-1:]), sep="\n", flush=True)
    return conclude(record_file, lines, 2 * len(wanted), given.rehearse)


def conclude(record_file, lines, count, rehearsed) -> int:
    """Say how many aims are reached; among kept results put the device and the date into the file's name."""
    failed, reached = [line for line in lines if "error" in line], sum(line.get("reached", False) for line in lines)
    aims = "" if rehearsed else f", {reached} aims reached"
    print(f"{len(lines)} of {count} questions asked, {len(failed)} failed or wrong{aims}")
    if lines and not rehearsed:
        record = json.loads(record_file.read_text())
        rates = [f"{rate:.3g} {name}" for name, rate in record.get("rates", {}).items()]
        print("rates:", "; ".join(rates) or "not needed")
        if record_file.parent == RESULTS:
            device = "".join(c if c.isalnum() else "-" for c in record["device"].lower())
            record_file = record_file.rename(RESULTS / f"gpu_ops-{device}-{record['date']}.json")
    print("written to", record_file)
    return 1 if failed or len(lines) < count else 0


if __name__ == "__main__":
    sys.exit(main())
