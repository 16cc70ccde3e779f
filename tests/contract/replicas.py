"""Cases under two replicas, in a process with two logical devices: `Replicas` asks it, `main` is what it does."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from tests.contract.axes import Case
from tests.contract.running import Found
from tests.processes import ROOT

_ANSWER = "answer: "
_ERRORS = {"ValueError": ValueError, "TypeError": TypeError}


class Replicas:
    """The process, started when it is first asked, and ended by `close`."""

    def __init__(self):
        self._process, self._log = None, None

    def run(self, case):
        """Return what a case `Found`; what it raised is raised here."""
        if self._process is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.contract.replicas"], cwd=ROOT, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            )  # fmt: skip
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                answer = json.loads(line[len(_ANSWER) :])
                if "error" in answer:
                    raise _ERRORS.get(answer["error"], RuntimeError)(answer["message"])
                return Found(answer["cost"], np.array(answer["position"]), answer["attempts"], answer["accepted"])
        self._log.seek(0)
        raise RuntimeError(self._log.read().decode()[-3000:])

    def close(self):
        """End the process."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()
            self._log.close()


def main():
    """Answer cases, one a line, until there are no more."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import tensorflow as tf

    from tests.contract.conditions import conditions_of
    from tests.contract.running import run

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    for line in sys.stdin:
        case = Case(*json.loads(line))
        try:
            found = run(case, conditions_of(case))
            answer = {**found._asdict(), "position": found.position.tolist()}
        except Exception as error:  # whatever it is, it is raised where the case was asked for
            answer = {"error": type(error).__name__, "message": str(error)}
        print(_ANSWER + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
