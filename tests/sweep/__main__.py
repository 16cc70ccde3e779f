"""Run every sample through every check, and keep what was found beside this file.

python -m tests.sweep                     all of them, about half an hour
python -m tests.sweep --only roll         those with "roll" in their names, printed and not kept
"""

import argparse
import concurrent.futures
import json
import queue
import subprocess
import sys
import threading

import tests.sweep.package_checks  # noqa: F401 (more checks)
from tests.sweep.checks import CHECKS
from tests.sweep.report import keep, summary
from tests.sweep.samples import SAMPLES
from tests.sweep.worker import REPLY

PATIENCE = 120  # seconds for one check, after which it hangs


class Worker:
    """A process that runs checks, started again when TensorFlow takes it down."""

    def __init__(self):
        self.process = self.replies = None

    def run(self, name):
        """Return what became of each check of a sample, a dict."""
        results, pending = {}, ["ops", *CHECKS]
        while pending:
            self._ask([name, *pending])
            while (reply := self._reply()) is not None and reply[0] != "end":
                results[reply[0]] = reply[1]
                pending.remove(reply[0])
            if reply is None and pending:
                results[pending.pop(0)] = {"outcome": self._how_it_ended()}
        return results

    def _ask(self, request):
        if self.process is None:
            self._start()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def _start(self):
        command = [sys.executable, "-m", "tests.sweep.worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.replies = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self.process.stdout, self.replies), daemon=True).start()

    def _reply(self):
        """The next reply; None where there is none, because the process has ended or does nothing."""
        try:
            return self.replies.get(timeout=PATIENCE)
        except queue.Empty:
            return None

    def _how_it_ended(self):
        """End the process that gave no reply, and say why."""
        try:
            self.process.wait(timeout=5)
            hangs = False
        except subprocess.TimeoutExpired:
            hangs = True
        self.close()
        return "hangs" if hangs else "aborts"

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _read(stream, replies):
    for line in stream:
        if line.startswith(REPLY):
            replies.put(json.loads(line[len(REPLY) :]))
    replies.put(None)


def sweep(names, jobs):
    """Return what became of the samples with these names, a dict in the order of the table."""
    waiting, results = queue.SimpleQueue(), {}
    for name in names:
        waiting.put(name)

    def work():
        worker = Worker()
        while not waiting.empty():
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                break
            results[name] = worker.run(name)
            print(f"{len(results)}/{len(names)} {name}", file=sys.stderr, flush=True)
        worker.close()

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work) for _ in range(jobs)]:
            done.result()
    return {name: results[name] for name in names}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only samples with this in their names")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes at once")
    options = parser.parse_args()
    results = sweep([name for name in SAMPLES if options.only in name], options.jobs)
    print(summary(results))
    if not options.only:
        keep(results)


if __name__ == "__main__":
    main()
