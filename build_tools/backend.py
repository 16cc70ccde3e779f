"""The PEP 517 backend: setuptools, which asks for TensorFlow where it is not installed but ops can be compiled."""

import sys

import setuptools
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

from build_tools.settings import read_settings
from build_tools.toolchain import BuildError, find_compiler, find_tensorflow

TENSORFLOW = "tensorflow>=2.16"

if int(setuptools.__version__.partition(".")[0]) < 77:  # pip looks only where it makes an environment for the build
    sys.exit(
        f"tfjac: setuptools 77.0.3 or newer is needed to build it. There is {setuptools.__version__}. "
        "Update it: python -m pip install --upgrade setuptools"
    )


def get_requires_for_build_wheel(config_settings=None):
    """Name what is needed to build a wheel."""
    return build_meta.get_requires_for_build_wheel(config_settings) + _tensorflow()


def get_requires_for_build_editable(config_settings=None):
    """Name what is needed for an editable installation."""
    return build_meta.get_requires_for_build_editable(config_settings) + _tensorflow()


def _tensorflow():
    settings = read_settings()
    if settings.native == "0":
        return []
    try:
        find_compiler(settings.compiler)
    except BuildError:
        return []
    try:
        find_tensorflow(settings.tensorflow)
    except BuildError:
        return [TENSORFLOW]
    return []
