"""Packaging of the native libraries; everything else is in pyproject.toml."""

import pathlib
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))  # pip's build isolation leaves it out

from build_tools.native import INFO, LIBRARIES, build

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools < 70.1
    from wheel.bdist_wheel import bdist_wheel


class BuildNative(build_ext):
    """Build the libraries that TensorFlow loads: they are no Python extensions, but travel like one."""

    def build_extension(self, ext):
        build(self._folder(ext))

    def get_outputs(self):
        return [str(self._folder(ext) / name) for ext in self.extensions for name in (*LIBRARIES, INFO)]

    def copy_extensions_to_source(self):
        """Nothing to copy: in place, `build_extension` writes to the source tree."""

    def _folder(self, ext):
        return pathlib.Path(self.get_ext_fullpath(ext.name)).parent

    def get_ext_fullpath(self, name):
        root = pathlib.Path(__file__).resolve().parent if self.inplace else pathlib.Path(self.build_lib)
        return str(root.joinpath(*name.split(".")))


class PlatformWheel(bdist_wheel):
    """Tag the wheel with the platform but with no Python version: the libraries do not depend on one."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("tfjac.ops._native.libtfjac", sources=[])],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel},
)
