"""What widely copied tutorials on multi-GPU PyTorch teach or show, line by line, and what gpudoctor must say of each.

`ROWS` is data: `tests/test_tutorials.py` runs every row through the real command, and docs/tutorials.md is written from
the same rows. A module of this package brings rows by a constant `ROWS`; nothing else has to be edited for a new one.
"""

import importlib
import pkgutil

from tests.tutorials.row import TITLES, Row


def _read() -> tuple[Row, ...]:
    """Of all modules, in the order of the page: by title, then as the modules have them, by their names."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in ("row", "page"))
    rows = [row for name in modules for row in importlib.import_module(f"{__name__}.{name}").ROWS]
    return tuple(sorted(rows, key=lambda row: TITLES.index(row.title)))


ROWS = _read()
