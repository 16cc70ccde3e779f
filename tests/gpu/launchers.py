"""The launchers of libtfjac_cuda.so through ctypes. Imports neither tfjac nor TensorFlow."""

import ctypes
import runpy

import numpy as np

from build_tools.settings import ROOT
from tests.gpu.arrays import Guarded

# Run by itself: the package would import TensorFlow, which need not be there.
nvidia_folders = runpy.run_path(str(ROOT / "tfjac" / "ops" / "_nvidia_folders.py"))["nvidia_folders"]

NEVER_LIBRARY, LIBRARY_WHERE_FASTER, ALWAYS_LIBRARY = 0, 1, 2
ALIGNMENT = 256
"""Bytes, of a workspace."""


class _Inputs(ctypes.Structure):
    """What a launcher is given as one struct. Whoever has the struct has the arrays that its pointers lead to."""

    kept = ()

    def keeping(self, *arrays):
        """Hold on to the arrays, for as long as there is this struct."""
        self.kept = (*self.kept, *arrays)
        return self


class _Factor(ctypes.Structure):
    _fields_ = [("a", ctypes.c_void_p), ("d", ctypes.c_void_p)] + [
        (name, ctypes.c_int64) for name in ("t", "g", "i", "o", "column", "stride_g", "stride_i", "stride_o")
    ]


class _Factors(_Inputs):
    _fields_ = [(name, ctypes.c_int64) for name in ("n", "m", "p", "count")] + [("factor", ctypes.POINTER(_Factor))]


class _Systems(_Inputs):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("p", "k")),
        *((name, ctypes.c_void_p) for name in ("matrix", "rhs", "scaling", "damping")),
        ("own", ctypes.c_int64),
    ]


class _Blocks(_Inputs):
    _fields_ = [("count", ctypes.c_int64), ("block", ctypes.POINTER(_Factors))]


class _ExampleBlocks(_Inputs):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("n", "m", "p")),
        *((name, ctypes.c_void_p) for name in ("jacobian", "residual")),
    ]


class LaunchError(Exception):
    """A launcher returned an error code."""


def _place(layout, sizes):
    """Give the stride of each axis of a block whose columns are flattened in the order of the layout."""
    strides, stride = {}, 1
    for axis in reversed(layout):
        strides[axis] = stride
        stride *= max(sizes[axis], 1)
    return strides


class DeviceProblem:
    """A problem's factors where the launchers can read them."""

    def __init__(self, arrays, problem, dtype):
        self.n, self.m, self.p, self.dtype = problem.n, problem.m, problem.p, np.dtype(dtype)
        shared = {}  # arrays that several factors share stay shared

        def put(values):
            if id(values) not in shared:
                shared[id(values)] = arrays.put(values.astype(dtype))
            return shared[id(values)]

        table, column = [], 0
        for a, d, layout in zip(problem.a, problem.d, problem.layouts):
            _, t, g, i = a.shape
            o = d.shape[-1]
            strides = _place(layout, {"g": g, "i": i, "o": o})
            pointers = arrays.pointer(put(a)), arrays.pointer(put(d))
            table.append(_Factor(*pointers, t, g, i, o, column, strides["g"], strides["i"], strides["o"]))
            column += g * i * o
        residual = arrays.put(problem.residual.astype(dtype))
        self.residual = arrays.pointer(residual)
        table = (_Factor * len(table))(*table)
        self.factors = _Factors(self.n, self.m, self.p, len(table), table).keeping(*shared.values(), residual)


def blocks_of(*problems):
    """Give problems of the same columns as blocks of rows, as C++ sees them."""
    factors = [problem.factors for problem in problems]
    return _Blocks(len(factors), (_Factors * len(factors))(*factors)).keeping(*factors)


def systems_of(arrays, matrix, rhs, scaling, damping):
    """Give the inputs of DampedSolve, as C++ sees them: one system for all values of the damping, or one for each."""
    inputs = (matrix, rhs, scaling, damping)
    pointers, each = map(arrays.pointer, inputs), len(rhs.shape) - 1
    return _Systems(rhs.shape[-1], damping.shape[0], *pointers, each).keeping(*inputs)


def example_blocks_of(arrays, jacobian, residual):
    """Give the inputs of ExampleGrams, as C++ sees them."""
    pointers = arrays.pointer(jacobian), arrays.pointer(residual)
    return _ExampleBlocks(*jacobian.shape, *pointers).keeping(jacobian, residual)


class Launchers:
    """The launchers of one library, on arrays of one kind.

    Args:
        path: the library.
        arrays: where its inputs and results are.
        folders: where cuBLAS and cuSOLVER may be, besides where the system looks. A GPU's launchers want
            `nvidia_folders()`; the emulated ones must not find a real cuBLAS.
    """

    def __init__(self, path, arrays, folders=()):
        self.arrays = arrays
        self.library = ctypes.CDLL(str(path))
        self.library.tfjac_cuda_error_message.restype = ctypes.c_char_p
        for folder in folders:
            self.library.tfjac_cuda_search_in(str(folder).encode())

    def problem(self, problem, dtype):
        """Copy a problem to the device."""
        return DeviceProblem(self.arrays, problem, dtype)

    def sizes(self, n, m, blocks):
        """Give factors without values, one for each (t, g, i, o): enough to be asked for a workspace."""
        table, column = [], 0
        for t, g, i, o in blocks:
            table.append(_Factor(None, None, t, g, i, o, column, i * o, o, 1))
            column += g * i * o
        return _Factors(n, m, column, len(table), (_Factor * len(table))(*table))

    def use_library(self, use):
        """Choose whether products that need not exist in memory do, for cuBLAS."""
        self.library.tfjac_cuda_use_library(use)

    def jacobian_rows(self, problem):
        """Give J as `[n, m, p]`."""
        rows = Guarded(self.arrays, (problem.n, problem.m, problem.p), problem.dtype)
        self.call("jacobian_rows", problem.dtype, ctypes.byref(problem.factors), rows.pointer)
        return rows.read()

    def jacobian_gram(self, problem, with_residual=True):
        """Give (JᵀJ, Jᵀ residual)."""
        gram = Guarded(self.arrays, (problem.p, problem.p), problem.dtype)
        gradient = Guarded(self.arrays, (problem.p,), problem.dtype)
        workspace = self.workspace("jacobian_gram", problem.dtype, problem.factors)
        residual = problem.residual if with_residual else None
        pointers = (residual, gram.pointer, gradient.pointer, workspace.pointer)
        self.call("jacobian_gram", problem.dtype, ctypes.byref(problem.factors), *pointers)
        workspace.read()
        return gram.read(), gradient.read()

    def jacobian_kernel(self, *problems):
        """Give J Jᵀ as `[rows, rows]`, J being the rows of the problems, one below the other."""
        dtype, rows = problems[0].dtype, sum(problem.n * problem.m for problem in problems)
        kernel, blocks = Guarded(self.arrays, (rows, rows), dtype), blocks_of(*problems)
        workspace = self.workspace("jacobian_kernel", dtype, blocks)
        self.call("jacobian_kernel", dtype, ctypes.byref(blocks), kernel.pointer, workspace.pointer)
        workspace.read()
        return kernel.read()

    def jacobian_row_norms(self, problem):
        """Give the squared norms of the rows as `[n, m]`."""
        norms = Guarded(self.arrays, (problem.n, problem.m), problem.dtype)
        self.call("jacobian_row_norms", problem.dtype, ctypes.byref(problem.factors), norms.pointer)
        return norms.read()

    def example_grams(self, jacobian, residual, dtype):
        """Give (gram `[n, p, p]`, gradient `[n, p]`)."""
        inputs = [self.arrays.put(np.asarray(x, dtype)) for x in (jacobian, residual)]
        n, _, p = np.shape(jacobian)
        blocks = example_blocks_of(self.arrays, *inputs)
        gram, gradient = (Guarded(self.arrays, shape, np.dtype(dtype)) for shape in ((n, p, p), (n, p)))
        self.call("example_grams", dtype, ctypes.byref(blocks), gram.pointer, gradient.pointer)
        return gram.read(), gradient.read()

    def damped_solve(self, matrix, rhs, scaling, damping, dtype):
        """Give (solution `[k, p]`, success `[k]`); of one system, or one for each damping."""
        inputs = [self.arrays.put(np.asarray(x, dtype)) for x in (matrix, rhs, scaling, damping)]
        shape = (len(damping), np.shape(rhs)[-1])
        systems = systems_of(self.arrays, *inputs)
        solution = Guarded(self.arrays, shape, np.dtype(dtype))
        success = Guarded(self.arrays, shape[:1], np.dtype(np.int8))
        workspace = self.workspace("damped_solve", dtype, systems)
        pointers = (solution.pointer, success.pointer, workspace.pointer)
        self.call("damped_solve", dtype, ctypes.byref(systems), *pointers)
        workspace.read()
        return solution.read(), success.read()

    def workspace(self, op, dtype, sizes):
        """Allocate the workspace that an op asks for: bytes that make not-a-numbers, with guards."""
        size = self.workspace_size(op, dtype, sizes)
        workspace = Guarded(self.arrays, (size + ALIGNMENT,), np.dtype(np.int8))
        workspace.pointer += -workspace.pointer % ALIGNMENT
        return workspace

    def workspace_size(self, op, dtype, sizes) -> int:
        """Give the bytes of workspace that an op asks for."""
        size = ctypes.c_int64()
        self.call(f"{op}_workspace", dtype, ctypes.byref(sizes), ctypes.byref(size))
        return size.value

    def call(self, name, dtype, *arguments):
        """Call a launcher.

        Raises:
            LaunchError: with its message, if it returns an error code.
        """
        self.bound(name, dtype, *arguments)()

    def bound(self, name, dtype, *arguments):
        """Give a callable that calls a launcher as `call` does, with no more work in Python than it takes."""
        function = getattr(self.library, f"tfjac_cuda_{name}_{'f32' if np.dtype(dtype) == np.float32 else 'f64'}")
        arguments = [ctypes.c_void_p(x) if isinstance(x, int) or x is None else x for x in arguments]
        stream, message = ctypes.c_void_p(self.arrays.stream), self.library.tfjac_cuda_error_message

        def launch():
            if code := function(stream, *arguments):
                raise LaunchError(message(code).decode())

        return launch
