"""The build: settings that make no sense, sources that do not compile, interruptions, names with spaces."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys

import pytest

from build_tools import compilation, installation, native
from build_tools.compilation import compile_step, run_steps
from build_tools.settings import SettingError, read_settings
from build_tools.toolchain import BuildError, Compiler, find_compiler, find_nvcc

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("TFJAC_NATIVE", "yes", "must be one of auto, 0, 1. Received: 'yes'"),
        ("TFJAC_CUDA", "atuo", "Did you mean 'auto'. Received: 'atuo'"),
        ("TFJAC_CUDA_ARCHS", "sm_90", "compute capabilities, as in 80;90. Received: 'sm_90'"),
        ("TFJAC_CUDA_ARCHS", ";", "compute capabilities"),
        ("MAX_JOBS", "many", "whole number, 1 or more. Received: 'many'"),
        ("MAX_JOBS", "0", "whole number, 1 or more"),
        ("CXX", "g++ '", "command of a C.. compiler"),
        ("CXX", " ", "command of a C.. compiler"),
    ],
)
def test_settings_that_make_no_sense(name, value, message):
    with pytest.raises(SettingError, match=f"{name}.*{message}"):
        read_settings({name: value})


def test_settings(capsys):
    assert read_settings(dict.fromkeys(("TFJAC_NATIVE", "TFJAC_CUDA", "TFJAC_CUDA_ARCHS", "CXX", "MAX_JOBS"), "")) == (
        read_settings({})
    )
    settings = read_settings({"CXX": "ccache '/opt/my tools/g++' -m64", "TFJAC_CUDA_ARCHS": "75, 90a", "MAX_JOBS": "3"})
    assert settings.compiler == ("ccache", "/opt/my tools/g++", "-m64")
    assert settings.cuda_architectures == ("75", "90a") and settings.jobs == 3
    assert not capsys.readouterr().err
    read_settings({"TFJAC_NATVE": "0", "TFJAC_SOMETHING_ELSE": "1"})
    assert capsys.readouterr().err.count("\n") == 1


def test_a_misspelt_setting_ends_the_build_in_a_sentence(tmp_path):
    command = [sys.executable, "-m", "build_tools", tmp_path]
    said = subprocess.run(command, cwd=ROOT, env={**os.environ, "MAX_JOBS": "x"}, capture_output=True, text=True)
    assert said.returncode == 1 and said.stderr.startswith("tfjac: MAX_JOBS") and "Traceback" not in said.stderr


def test_an_old_setuptools_ends_the_build_in_a_sentence():
    """Without build isolation pip takes whatever there is."""
    program = "import setuptools; setuptools.__version__ = '65.5.0'; import build_tools.backend"
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 1 and "Traceback" not in said.stderr
    assert "There is 65.5.0. Update it: python -m pip install --upgrade setuptools" in said.stderr


@pytest.fixture
def program(tmp_path):
    """Give a step that compiles a source which includes a header, in a folder whose name has a space."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    folder = tmp_path / "a folder, with #1 spaces"
    folder.mkdir()
    (folder / "one.h").write_text("int one();\n")
    (folder / "one.cc").write_text('#include "one.h"\nint one() { return 1; }\n')
    return compile_step((compiler, f"-I{folder}"), folder / "one.cc", folder / "out" / "one.o")


def builds(step, capsys):
    """Say whether the step had to be done."""
    capsys.readouterr()
    run_steps([step], 1)
    return "building" in capsys.readouterr().out


def test_only_what_changed_is_compiled(program, capsys):
    run_steps([program], 1)
    assert "building 1 of 1: out/one.o" in capsys.readouterr().out and not builds(program, capsys)
    header = program.inputs[0].with_suffix(".h")
    header.write_text("int one();  // it changed\n")
    assert builds(program, capsys) and not builds(program, capsys)
    assert builds(program._replace(command=(*program.command, "-g")), capsys)
    header.unlink()
    with pytest.raises(BuildError, match=r"failed to make one\.o:.*one\.h"):
        builds(program, capsys)


def test_the_terminal_is_told_once_what_pip_keeps_to_itself(tmp_path):
    """Standard output is a pipe, as it is for what pip calls; a terminal is the one of the session."""
    ours, theirs = pty.openpty()
    program = f"""
import os, pathlib
from build_tools.compilation import Step, run_steps
os.open({os.ttyname(theirs)!r}, os.O_RDWR)  # the first that a session opens
step = Step(("sh", "-c", 'touch "$2"', "sh"), pathlib.Path({str(tmp_path / "made")!r}))
for _ in range(2):
    run_steps([step], 1, "compiling, about a minute")
"""
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, cwd=ROOT, start_new_session=True, check=True, stdout=subprocess.PIPE, text=True)
    shown = os.read(ours, 1000)
    os.close(ours), os.close(theirs)
    assert shown == b"\r\ncompiling, about a minute\r\n"
    assert printed.stdout == f"tfjac: building 1 of 1: {tmp_path.name}/made\n"


def test_what_was_interrupted_is_done_again(program, capsys):
    source, good = program.inputs[0], program.inputs[0].read_text()
    builds(program, capsys)
    object_code = program.output.read_bytes()
    program.output.write_bytes(object_code[:100])  # the disk was full
    assert builds(program, capsys) and program.output.read_bytes() == object_code

    source.write_text(good.replace("1;", "2;"))
    killed = pytest.MonkeyPatch()
    killed.setattr(compilation.json, "dumps", lambda record: 1 / 0)  # after the compiler, before the record
    with killed.context(), pytest.raises(ZeroDivisionError):
        builds(program, capsys)
    killed.undo()
    source.write_text(good)
    assert builds(program, capsys) and program.output.read_bytes() == object_code

    compilation._record(program).write_text('{"command"')
    assert builds(program, capsys)


def test_only_what_this_processor_runs_is_compiled(monkeypatch):
    compiler, settings = Compiler(("g++",), "", "x86_64"), read_settings({})
    for has, best in (
        ({"baseline"}, "baseline"),
        ({"baseline", "avx2"}, "avx2"),
        (set(native.PROCESSOR["NEEDED"]), "avx512"),
    ):
        monkeypatch.setitem(native.PROCESSOR, "has_set", has.__contains__)
        assert list(native.chosen_sets(compiler, settings)) == [best]
        assert native.dispatch_flags({best: ()}) == (f"-DTFJAC_ONLY_ISA={best}",)
    every = native.chosen_sets(compiler, read_settings({"TFJAC_INSTRUCTION_SETS": "all"}))
    assert list(every) == ["baseline", "avx2", "avx512"] and not native.dispatch_flags(every)
    assert list(native.chosen_sets(compiler._replace(processor="aarch64"), settings)) == ["baseline"]


def test_nothing_is_compiled_for_cuda_where_no_gpu_is(monkeypatch):
    monkeypatch.setattr(native, "has_gpu", lambda: False)
    monkeypatch.setattr(native, "find_nvcc", lambda architectures: pytest.fail("nvcc was looked for"))
    monkeypatch.setattr(native, "_has_calls", lambda tensorflow: True)
    built, record = native._build_cuda(None, None, read_settings({}))
    assert not built and "no GPU; TFJAC_CUDA=1" in record["cuda_reason"]


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Stand in for the compiling: give a function that sets what it leads to, contents by name or an error."""

    def lead_to(outcome):
        def build_libraries(settings):
            if isinstance(outcome, Exception):
                raise outcome
            for name, contents in outcome.items():
                (tmp_path / name).write_text(contents)
            return [([tmp_path / name for name in outcome], {"tensorflow": "2.21.0"})]

        monkeypatch.setattr(installation, "build_libraries", build_libraries)

    for name in ("TFJAC_NATIVE", "TFJAC_CUDA", "CXX"):
        monkeypatch.delenv(name, raising=False)
    return lead_to


def contents(target):
    return {path.name: path.read_text() for path in target.iterdir() if path.suffix == ".so"}


def test_installed_whole_or_not_at_all(libraries, tmp_path, monkeypatch):
    target, new = tmp_path / "target", {"libtfjac.so": "new one", "libtfjac_xla.so": "new two"}
    folder = target / "2.21"
    libraries({"libtfjac.so": "one", "libtfjac_cuda.so": "three"})
    installation.build(target)
    libraries(new)
    monkeypatch.setattr(installation.shutil, "copy2", lambda *_: 1 / 0)  # the disk is full
    with pytest.raises(ZeroDivisionError):
        installation.build(target)
    assert not (folder / installation.INFO).exists()  # so that the package opens none of them
    monkeypatch.undo()
    libraries(new)
    record = installation.build(target)
    assert contents(folder) == new and record["bytes"] == {"libtfjac.so": 7, "libtfjac_xla.so": 7}
    assert json.loads((folder / installation.INFO).read_text()) == record
    assert {path.name for path in folder.iterdir()} == {*new, installation.INFO}
    inode = (folder / "libtfjac.so").stat().st_ino
    installation.build(target)
    assert (folder / "libtfjac.so").stat().st_ino == inode  # nothing new: a running program keeps what it has


def test_what_works_is_left_where_the_new_does_not_build(libraries, tmp_path, monkeypatch, capsys):
    target, folder = tmp_path / "target", tmp_path / "target" / "2.21"
    libraries({"libtfjac.so": "works"})
    installation.build(target)
    libraries(BuildError("g++ failed to make libtfjac.so: undefined reference"))
    record = installation.build(target)
    assert contents(folder) == {"libtfjac.so": "works"} and "undefined reference" in record["failure"]
    assert "built earlier stay" in capsys.readouterr().err
    assert not json.loads((folder / installation.INFO).read_text())["reason"]

    (folder / "libtfjac.so").write_text("wor")  # but what is broken goes
    assert "undefined reference" in installation.build(target)["reason"]
    assert [path.name for path in target.iterdir()] == [installation.INFO]

    monkeypatch.setenv("TFJAC_NATIVE", "1")
    with pytest.raises(BuildError, match="undefined reference"):
        installation.build(target)
    monkeypatch.setenv("TFJAC_NATIVE", "0")
    libraries({"libtfjac.so": "works"})
    assert "TFJAC_NATIVE was 0" in installation.build(target)["reason"]
    assert [path.name for path in target.iterdir()] == [installation.INFO]


def test_a_folder_for_each_minor_version(tmp_path, monkeypatch):
    """A build for one TensorFlow leaves the libraries of the others, and takes a record of failure away."""
    target = tmp_path / "target"
    target.mkdir()
    (target / installation.INFO).write_text('{"reason": "no C++ compiler"}')
    for version in ("2.18.1", "2.21.0-rc1"):
        library = tmp_path / "libtfjac.so"
        library.write_text(version)
        built = [([library], {"tensorflow": version})]
        monkeypatch.setattr(installation, "build_libraries", lambda settings, built=built: built)
        installation.build(target)
    assert {path.parent.name: path.read_text() for path in target.glob("*/*.so")} == {
        "2.18": "2.18.1", "2.21": "2.21.0-rc1",
    }  # fmt: skip
    assert installation.folders(target) == [target / "2.18", target / "2.21"]
    assert not (target / installation.INFO).exists()


@pytest.mark.parametrize(
    "command, reason", [("no-such-g++", "no C.. compiler .no-such-g.."), ("silent", "does not answer")]
)
def test_the_compiler_is_missed_first(command, reason, tmp_path, monkeypatch):
    """Without one, TensorFlow is not asked for either, and so was once said to be what is missing."""
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    monkeypatch.delenv("TFJAC_CUDA", raising=False)  # who asks for it is told of failures by errors
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", command)
    monkeypatch.setenv("TFJAC_TENSORFLOW", str(tmp_path))  # there is none either
    assert re.search(reason, installation.build(tmp_path / "target")["reason"])
    monkeypatch.setenv("CXX", "silent")
    silent.write_text("#!/bin/sh\necho 'a compiler'\n")  # whatever it is asked
    assert find_compiler(("silent",)).version == "a compiler"
    with pytest.raises(BuildError, match="TensorFlow was not found"):
        native.build_libraries(read_settings())


def _fake_nvcc(home, release):
    """A toolkit with an nvcc that says its version, and where it is."""
    (home / "bin").mkdir(parents=True)
    (home / "lib64").mkdir()
    (home / "lib64" / "libcudart_static.a").touch()
    nvcc = home / "bin" / "nvcc"
    nvcc.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "Build cuda_{release}.0/compiler.1" || echo "#$ TOP={home}" >&2\n'
    )
    nvcc.chmod(0o755)
    return home


def test_cuda_of_tensorflow_goes_before_newer_ones(tmp_path, monkeypatch):
    newer, same = _fake_nvcc(tmp_path / "packages/nvidia/cu13", "13.2"), _fake_nvcc(tmp_path / "cuda-12.4", "12.4")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    monkeypatch.setenv("PATH", f"{same / 'bin'}:{os.environ['PATH']}")
    assert pathlib.Path(find_nvcc(("90",)).path).parents[1] == same
    monkeypatch.setenv("CUDA_HOME", str(newer))
    assert pathlib.Path(find_nvcc(("90",)).path).parents[1] == newer
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nowhere"))
    assert pathlib.Path(find_nvcc(("90",)).path).parents[1] == same
