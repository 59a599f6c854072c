"""`gpudoctor hang` that leaves what it has seen in a file, so that other rules can conclude from the same:
`python -m tests.lab.hangs.kept FILE [words of gpudoctor hang]`."""

import sys
from pathlib import Path

from gpudoctor.cli import main
from gpudoctor.hang import live
from gpudoctor.snapshot.evidence import to_json


def keeping(file: Path) -> None:
    looks = live.patiently

    def kept(*given: object) -> object:
        found, report = looks(*given)  # type: ignore[arg-type]
        file.write_bytes(to_json(found.evidence))
        return found, report

    live.patiently = kept  # type: ignore[assignment]


if __name__ == "__main__":
    keeping(Path(sys.argv[1]))
    sys.argv = ["gpudoctor", "hang", *sys.argv[2:]]
    main()
