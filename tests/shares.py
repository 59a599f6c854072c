"""What each worker of xdist would do for itself in a fresh clone, done once: each does a share and reads the others.

Rewriting the assertions of all tests, and reading our modules for the constants that hypothesis tries, take longer
there than all else of the collection. Both are kept in files, by pytest and by hypothesis, whose own ways these are:
where a version has them otherwise, each worker works for itself.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

Part = TypeVar("Part")


def share(config: pytest.Config, whole: Sequence[Part]) -> Sequence[Part]:
    """Of a worker, every fourth where there are four."""
    worker = getattr(config, "workerinput", None)
    return whole[int(worker["workerid"][2:]) :: worker["workercount"]] if worker else ()


def rewrite(config: pytest.Config, folder: Path) -> None:
    """The assertions of the tests of a folder, in the order in which they are collected."""
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from _pytest.assertion import rewrite as pytests

        for file in share(config, sorted(folder.rglob("test_*.py"))):
            kept = pytests.get_cache_dir(file) / f"{file.stem}{pytests.PYC_TAIL}"
            if not kept.exists() and pytests.try_makedirs(kept.parent):
                state, code = pytests._rewrite_test(file, config)
                pytests._write_pyc(config.stash[pytests.assertstate_key], code, state, kept)


def read_constants(config: pytest.Config) -> None:
    """Those of the modules that the collection has imported."""
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from hypothesis.internal.constants_ast import constants_from_module, is_local_module_file

        ours = {path: module for module in [*sys.modules.values()] if (path := getattr(module, "__file__", None))}
        for path in share(config, sorted(path for path in ours if is_local_module_file(path))):
            constants_from_module(ours[path])
