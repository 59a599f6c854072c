"""`python -m tests.attacks`: how many attacks the tests hold, by surface; with -v, which."""

import importlib
import sys
from collections import Counter
from pathlib import Path

from tests.attacks.registry import ATTACKS, SURFACES, Attack


def gathered() -> list[Attack]:
    """Every attack, from all modules of this folder."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"tests.attacks.{path.stem}")
    return list(ATTACKS)


def main() -> None:
    found = gathered()
    for surface, count in sorted(Counter(each.surface for each in found).items(), key=lambda at: SURFACES.index(at[0])):
        print(f"{surface:12} {count:4}")
        if "-v" in sys.argv[1:]:
            for each in found:
                if each.surface == surface:
                    print(f"    {each.way}: {each.weakness}")
    print(f"{'all':12} {len(found):4}")


if __name__ == "__main__":
    main()
