"""What launchers are given: arrays that live as long as the pointers to them, and where cuBLAS and cuSOLVER are."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

from build_tools.settings import ROOT
from tests.gpu.arrays import HostArrays
from tests.gpu.build import CACHE
from tests.gpu.conftest import emulated_library
from tests.gpu.launchers import DeviceProblem, blocks_of, example_blocks_of, nvidia_folders, systems_of
from tests.gpu.problems import Problem


class WatchedArrays(HostArrays):
    """Arrays on the host, with a list of those that live."""

    def __init__(self):
        self.living = weakref.WeakSet()

    def put(self, values):
        array = Watched(np.shape(values))
        array[...] = values
        self.living.add(array)
        return array


class Watched(np.ndarray):
    __hash__ = object.__hash__


def device_problem(arrays):
    problem = Problem(np.random.default_rng(0), 3, 2, [(1, 1, 3, 2, "gio"), (1, 1, 1, "=", "gio")])
    return DeviceProblem(arrays, problem, np.float64)


def ones(arrays, *shapes):
    return [arrays.put(np.ones(shape)) for shape in shapes]


INPUTS = {  # name -> (how many arrays, what points to them)
    "factors": (4, lambda arrays: device_problem(arrays).factors),
    "blocks": (8, lambda arrays: blocks_of(device_problem(arrays), device_problem(arrays))),
    "systems": (4, lambda arrays: systems_of(arrays, *ones(arrays, (2, 2), (2,), (2,), (1,)))),
    "examples": (2, lambda arrays: example_blocks_of(arrays, *ones(arrays, (3, 2, 4), (3, 2)))),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("kind", INPUTS)
def test_whoever_has_the_pointers_has_the_arrays(kind):
    arrays, (count, give) = WatchedArrays(), INPUTS[kind]
    inputs = give(arrays)
    gc.collect()
    assert len(arrays.living) == count
    del inputs
    gc.collect()
    assert not arrays.living


def packages(folder):
    """Make a tree as NVIDIA's packages from PyPI do, of several versions."""
    files = {
        "nvidia/cublas/lib": "libcublas.so.12",
        "nvidia/cudnn/lib": "libcudnn.so.9",
        "nvidia/cu13/lib": "libcublas.so.13",
        "nvidia/cusolver/lib": "libcusolver.so.11",
        "other/cusolver/lib": "libcusolver.so.11",
    }
    for place, name in files.items():
        (folder / place).mkdir(parents=True)
        (folder / place / name).touch()


def test_folders_of_nvidias_packages(tmp_path, monkeypatch):
    packages(tmp_path)
    expected = [tmp_path / "nvidia" / name / "lib" for name in ("cu13", "cublas", "cusolver")]
    assert sorted(nvidia_folders([tmp_path / "no such folder", tmp_path])) == sorted(expected)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert nvidia_folders()[:3] == nvidia_folders([tmp_path])


PROGRAM = """
import sys
import numpy as np
from tests.gpu.arrays import HostArrays
from tests.gpu.launchers import ALWAYS_LIBRARY, LaunchError, Launchers, nvidia_folders
from tests.gpu.problems import CASES, Problem
problem = Problem(np.random.default_rng(0), *CASES["mlp"])
for folders in ((), nvidia_folders(sys.argv[2:])):
    launchers = Launchers(sys.argv[1], HostArrays(), folders)
    launchers.use_library(ALWAYS_LIBRARY)
    try:
        gram, _ = launchers.jacobian_gram(launchers.problem(problem, np.float64))
        solution, success = launchers.damped_solve(np.eye(100), np.ones(100), np.ones(100), [1.0], np.float64)
        print(np.allclose(gram, problem.rows().T @ problem.rows()), np.allclose(solution, 0.5), success)
    except LaunchError as error:
        print(error)
"""


def test_libraries_are_found_in_the_folders_that_launchers_are_given(tmp_path):
    """In a process where they are nowhere else."""
    library = emulated_library(CACHE / "emulated")
    for place, name in (("cu13", "libcublas.so.13"), ("cusolver", "libcusolver.so.11")):
        (tmp_path / "nvidia" / place / "lib").mkdir(parents=True)
        (tmp_path / "nvidia" / place / "lib" / name).symlink_to(library)
    unset = {"TFJAC_EMULATED_CUBLAS": "", "TFJAC_EMULATED_CUSOLVER": "", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, library, tmp_path]
    said = subprocess.run(command, env=os.environ | unset, capture_output=True, text=True)
    assert "cuBLAS was not found" in said.stdout.splitlines()[0], said.stderr
    assert said.stdout.splitlines()[1:] == ["True True [1]"]
