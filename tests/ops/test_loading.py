"""Finding and loading the library: where there is none, twice in a process, late, and before a SavedModel that needs
it."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.factors import Problem
from tests.processes import run
from tfjac import ops
from tfjac.ops import _library

MINOR = ".".join(tf.__version__.split(".")[:2])
RELOAD = """
import sys
import numpy as np
import tensorflow as tf
tf.function(lambda x: x + 1, jit_compile=True)(tf.ones(3))  # TensorFlow now has its list of XLA kernels
import tfjac
for folder in sys.argv[1:]:
    loaded = tf.saved_model.load(folder)
    data = np.load(folder + "/data.npz")
    found = loaded.compute(tf.constant(data["a"]), tf.constant(data["d"]))
    for name, value in found.items():
        np.testing.assert_allclose(value, data[name], rtol=1e-10, atol=1e-12)
    print("same")
a, d = [tf.ones([3, 1, 1, 2])], [tf.ones([3, 2, 1, 1, 4])]
inner = tf.function(lambda a, d: tfjac.ops.jacobian_row_norms(a, d))
inner(a, d)  # traced outside of what is compiled below
print(float(tf.reduce_sum(tf.function(lambda a, d: inner(a, d) + 1, jit_compile=True)(a, d))))
"""


@pytest.mark.by_day(None)
def test_saved_models_and_xla_in_a_fresh_process(tmp_path, rng):
    """The library is loaded when XLA has compiled already; what was saved is loaded, and XLA calls the ops."""
    problem = Problem(rng, 6, 2, [(2, 1, 4, 3, "ogi")])

    class Module(tf.Module):
        @tf.function(
            input_signature=[tf.TensorSpec([None, 2, 1, 4], tf.float64), tf.TensorSpec([None, 2, 2, 1, 3], tf.float64)]
        )
        def compute(self, a, d):
            gram, gradient = ops.jacobian_gram([a], [d], problem.layouts, d[:, :, 0, 0, 0])
            solution, _ = ops.damped_solve(gram, gradient, tf.ones_like(gradient), tf.constant(1.0, tf.float64))
            rows = ops.jacobian_rows([a], [d], problem.layouts)
            kernel, norms = ops.jacobian_kernel([a], [d]), ops.jacobian_row_norms([a], [d])
            return {"gram": gram, "solution": solution, "rows": rows, "kernel": kernel, "norms": norms}

    a, d = (xs[0] for xs in problem.tensors(tf.float64))
    names = ["native", "twin"] if ops.load_ops() else ["twin"]
    for name in names:
        with ops.implementation(name):
            module = Module()
            values = {key: value.numpy() for key, value in module.compute(a, d).items()}
            tf.saved_model.save(module, str(tmp_path / name))
        np.savez(tmp_path / name / "data.npz", a=a, d=d, **values)
    *same, total = run(RELOAD, *(tmp_path / name for name in names)).split()
    assert same == ["same"] * len(names)
    assert float(total) == 3 * 2 * (2 * 4 + 1)


@pytest.mark.parametrize(
    "place, record, words",
    [
        ("1.2", '{"reason": "", "tensorflow": "1.2.3"}', ["for TensorFlow 1.2, and this is", tf.__version__]),
        (MINOR, '{"reason": "", "tensorflow": "1.2.3"}', ["for TensorFlow 1.2.3, and this is", tf.__version__]),
        (".", '{"reason": "no C++ compiler (g++) was found"}', ["no C\\+\\+ compiler"]),
        (".", None, ["have not been compiled", "pip install .* \\."]),
        (MINOR, '{"reason": "", "tensorflow', ["record .*_build_info.json, cannot be read"]),
        (MINOR, "[]", ["cannot be read"]),
        (MINOR, '{"reason": ""}', ["cannot be read .*tensorflow"]),
    ],
    ids=["other_tensorflow", "moved", "no_compiler", "not_built", "record_cut_off", "no_record", "half_a_record"],
)
def test_one_warning_where_there_is_nothing_to_load(place, record, words, tmp_path, monkeypatch):
    monkeypatch.setattr(_library, "NATIVE_DIR", tmp_path)
    monkeypatch.setattr(_library, "_loaded", None)
    if record is not None:
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "_build_info.json").write_text(record)
    with pytest.warns(RuntimeWarning, match=".*".join(words)) as caught:
        assert not ops.load_ops()
        assert ops.jacobian_row_norms([tf.ones([1, 1, 1, 1])], [tf.ones([1, 1, 1, 1, 1])]) == 1
    assert len(caught) == 1
    info = ops.ops_info()
    assert not info.native and info.reason and not any(info.ops.values()) and not info.compiled
    with pytest.raises(RuntimeError, match="not available"), ops.implementation("native"):
        pass


def test_devices_are_those_that_are_there(need_native, monkeypatch):
    """Compiled for is one thing; what this machine has is another."""
    info = ops.ops_info()
    assert set(info.compiled) - {"GPU"} == {"CPU", "XLA"}
    for gpus in ([], ["a GPU"]):
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind, gpus=gpus: gpus)
        usable = {"CPU", "XLA"} | ({"GPU"} if gpus and info.cuda_architectures else set())
        found = ops.ops_info().ops
        assert set(found.pop("schur_complement")) == {"CPU", "XLA"}
        assert all(set(devices) == usable for devices in found.values())


@pytest.mark.parametrize("size", [0, 5000])
def test_a_library_cut_off_is_not_opened(size, tmp_path, monkeypatch):
    """It could kill the process, by reading past the end of the file."""
    monkeypatch.setattr(_library, "NATIVE_DIR", tmp_path)
    monkeypatch.setattr(_library, "_loaded", None)
    (tmp_path / MINOR).mkdir()
    (tmp_path / MINOR / "libtfjac.so").write_bytes(bytes(size))
    record = {"reason": "", "tensorflow": tf.__version__, "bytes": {"libtfjac.so": 5001}}
    (tmp_path / MINOR / "_build_info.json").write_text(json.dumps(record))
    with pytest.warns(RuntimeWarning, match=f"libtfjac.so has {size} bytes, and 5001 were built"):
        assert not ops.load_ops()


TWICE = """
import shutil, sys, warnings
import tensorflow as tf

def imported(native):
    for name in [name for name in sys.modules if name.startswith("tfjac")]:
        del sys.modules[name]
    import tfjac
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert tfjac.load_ops() == native, tfjac.ops_info().reason
    a, d = [tf.constant([[[[3.0]]]])], [tf.constant([[[[[2.0]]]]])]
    with tf.GradientTape() as tape:
        tape.watch(a)
        norm = tfjac.ops.jacobian_row_norms(a, d)
    assert float(norm[0, 0]) == 36 and float(tf.reduce_sum(tape.gradient(norm, a)[0])) == 24
    return tfjac.__file__, " ".join(str(one.message) for one in said)

first = imported(native=True)
assert first == imported(native=True)
shutil.copytree("tfjac", sys.argv[1] + "/tfjac")
sys.path.insert(0, sys.argv[1])
second, said = imported(native=False)
assert second.startswith(sys.argv[1]) and "another copy of tfjac" in said
"""


@pytest.mark.by_day(None)
def test_imported_again_and_from_a_second_copy(tmp_path, need_native):
    run(TWICE, tmp_path)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("TFJAC_ISA", "axv2", "one of baseline, avx2, avx512. Did you mean 'avx2'. Received: 'axv2'"),
        ("TFJAC_XLA", "HLO", "one of call, hlo. Did you mean 'hlo'. Received: 'HLO'"),
        ("TFJAC_XLA", "1", "one of call, hlo. Received: '1'"),
    ],
)
def test_values_that_mean_nothing_are_refused(name, value, message, monkeypatch):
    monkeypatch.setattr(_library, "_loaded", None)
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        ops.load_ops()


def test_misspelt_variables_are_said(monkeypatch, recwarn):
    for name, value in {"TFJAC_XLA": "", "TFJAC_ISA_": "avx2", "TFJAC_VERSION": "0.1.0"}.items():
        monkeypatch.setattr(_library, "_loaded", None)
        monkeypatch.setenv(name, value)
        ops.load_ops()
    said = [str(one.message) for one in recwarn if "environment variable" in str(one.message)]
    assert len(said) == 1 and "TFJAC_ISA_, so it does nothing. Did you mean 'TFJAC_ISA'?" in said[0]


def _record_of(sets, tmp_path, monkeypatch):
    """Have a library that is there on paper alone."""
    for name, value in (("NATIVE_DIR", tmp_path), ("_loaded", None)):
        monkeypatch.setattr(_library, name, value)
    (tmp_path / MINOR).mkdir()
    record = {"reason": "", "tensorflow": tf.__version__, "instruction_sets": sets, "bytes": {}}
    (tmp_path / MINOR / "_build_info.json").write_text(json.dumps(record))


def test_a_library_for_other_processors_is_not_opened(tmp_path, monkeypatch):
    """It would end the process by an illegal instruction."""
    _record_of(["avx512"], tmp_path, monkeypatch)
    monkeypatch.setattr(_library._processor, "has_set", lambda name: name != "avx512")
    with pytest.warns(RuntimeWarning, match="compiled for avx512, which this processor lacks.*INSTRUCTION_SETS=all"):
        assert not ops.load_ops()


def test_an_instruction_set_that_was_not_compiled_is_refused(tmp_path, monkeypatch):
    _record_of(["avx512"], tmp_path, monkeypatch)
    monkeypatch.setattr(_library._processor, "has_set", lambda name: True)
    monkeypatch.setenv("TFJAC_ISA", "avx2")
    with pytest.raises(ValueError, match=r"must be one of avx512: the native ops were compiled for no other.* 'avx2'"):
        ops.load_ops()
