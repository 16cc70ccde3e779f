"""Packaging of the native libraries; everything else is in pyproject.toml."""

import pathlib
import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # pip's build isolation leaves it out

from build_tools.installation import INFO, build, folders
from build_tools.native import LIBRARIES
from build_tools.readme import package_page
from build_tools.settings import read_settings


class BuildNative(build_ext):
    """Build the libraries that TensorFlow loads: they are no Python extensions, but travel like one."""

    def build_extension(self, ext):
        build(self._folder(ext, pathlib.Path(self.build_lib)))

    def copy_extensions_to_source(self):
        """Build in place, as for an editable installation; what has just been built is not compiled again."""
        for ext in self.extensions:
            build(self._folder(ext, ROOT))

    def get_outputs(self):
        targets = [self._folder(ext, pathlib.Path(self.build_lib)) for ext in self.extensions]
        places = [place for target in targets for place in (target, *folders(target))]
        return [str(place / name) for place in places for name in (*LIBRARIES, INFO) if (place / name).is_file()]

    @staticmethod
    def _folder(ext, root):
        return root.joinpath(*ext.name.split(".")).parent


class PlatformWheel(bdist_wheel):
    """Tag the wheel with the platform but with no Python version: the libraries do not depend on one."""

    def get_tag(self):
        return "py3", "none", "any" if self.root_is_pure else super().get_tag()[2]


setup(
    long_description=package_page(),
    long_description_content_type="text/markdown",
    # Where none are wanted, the wheel is for every platform.
    ext_modules=[Extension("tfjac.ops._native.libtfjac", sources=[])] if read_settings().native != "0" else [],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel},
)
