"""Hangs on NCCL under `gpudoctor run --stall 8`: `python -m tests.lab.torch_nccl.stalls [NAME...]`.

As tests/lab/ends/stalls.py for gloo: nothing asks for a look but `run` itself. Of *keep* only sums are printed.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path

from tests.lab import machines
from tests.lab.ends import stalls
from tests.lab.hangs.on_gpus import ON_GPUS
from tests.lab.hangs.training import Scenario
from tests.lab.nccl import wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.torch_nccl import scripts
from tests.lab.torch_nccl.looks import Wheels, environment, meeting_place

SPINS = 14.0
"""Seconds after its start from which on a job's ranks wait as on a GPU: at 100 %."""
LIMIT = 600


def looked(scenario: Scenario, release: Wheels) -> stalls.Row:
    with tempfile.TemporaryDirectory(prefix="stalls-") as name, meeting_place() as place:
        folder = Path(name)
        own = scenario._replace(script=str(scripts.write(folder / "scripts", LIMIT) / scenario.script))

        def spin(seconds: float) -> None:
            if seconds > SPINS:
                (folder / "spin").touch()

        with fake_nvidia(machines.hgx_h100()) as around:
            of_nccl = {**around, **environment(release, "plain", folder, place), "PYTHONPATH": str(release.site)}
            return stalls.looked(own, healthy=False, more=of_nccl, meanwhile=spin)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.torch_nccl.stalls", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--at-once", type=int, default=1)
    chosen = parser.parse_args()
    release = Wheels.of(wheels.NEWEST_TORCH)
    jobs = [ON_GPUS[name] for name in chosen.names or ON_GPUS]
    rows = stalls.run_all(
        jobs, False, chosen.at_once, math.inf, None, look=lambda scenario, _healthy, _place: looked(scenario, release)
    )
    print("\n".join(stalls.scored(rows)))
    return int(not all(row.right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
