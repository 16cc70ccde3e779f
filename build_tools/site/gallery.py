"""Run the examples, and keep for the site the pictures that they draw, what they print, and how long they take.

    python -m build_tools.site.gallery [NAME ...]

NAME is a file of examples/ without its ending; all of them where none is given.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "images"


def run(name: str) -> dict:
    """Run one example in a process of its own, drawing into `docs/images`; return its "seconds" and "output"."""
    command = [sys.executable, f"examples/{name}.py", "--plot", str(KEPT / f"{name}.png")]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    lines = [line for line in done.stdout.strip("\n").splitlines() if not line.startswith("plot: ")]
    return {"seconds": round(time.perf_counter() - start, 1), "output": "\n".join(lines).rstrip()}


def main() -> None:
    names = sys.argv[1:] or sorted(path.stem for path in (ROOT / "examples").glob("[0-9][0-9]_*.py"))
    file = KEPT / "runs.json"
    runs = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        runs[name] = run(name)
        print(f"{name}: {runs[name]['seconds']} s", flush=True)
        file.write_text(json.dumps(dict(sorted(runs.items())), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
