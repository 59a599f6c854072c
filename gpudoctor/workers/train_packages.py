"""Which version of a package is installed, without importing it; and importing it, on all ranks alike."""

import importlib
import importlib.util
import traceback
from typing import Any, Optional, Sequence, Tuple

from train_way import Context

MAXIMUM_TEXT = 300


def installed(names: Sequence[str]) -> "Tuple[str, str]":
    """(distribution, version) of the first that is there; ("", "") for none of them. The import package has its name
    with underscores.
    """
    from importlib import metadata

    for name in names:
        try:
            if importlib.util.find_spec(name.replace("-", "_")) is None:
                continue
            return name, str(metadata.version(name))
        except (ImportError, ValueError):  # PackageNotFoundError is an ImportError; ValueError of a broken one
            continue
    return "", ""


def numbers(version: str) -> "Tuple[int, ...]":
    """(2, 6) of "2.6.6"."""
    numbers_read = []
    for part in version.split(".")[:2]:
        digits = "".join(letter for letter in part if letter.isdigit())
        numbers_read.append(int(digits) if digits else 0)
    return tuple(numbers_read)


def imported(context: Context, names: Sequence[str]) -> "Tuple[Optional[Any], str]":
    """(module, "") of the first of these modules that imports; (None, why) on all ranks when one of them cannot."""
    why, module = "", None
    for name in names:
        context.enter(f"import of {name}")
        try:
            module = importlib.import_module(name)
            break
        except Exception as error:  # an import may raise anything
            if isinstance(error, ModuleNotFoundError) and error.name in (name, name.partition(".")[0]):
                continue  # the other name of the same is there
            traceback.print_exc()
            why = why or f"import {name}: {type(error).__name__}: {' '.join(str(error).split())}"[:MAXIMUM_TEXT]
    said = context.team.first_text("" if module is not None else why or "nothing to import")
    return (None, said) if said else (module, "")
