"""Builds the package of the folder above, which has the CMake project and its pyproject.toml."""
import os
import pathlib

os.chdir(pathlib.Path(__file__).resolve().parents[1])

from scikit_build_core.build import *  # noqa: E402, F403
