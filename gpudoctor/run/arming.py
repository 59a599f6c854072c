"""The environment of the command: what arms its ranks, and where NCCL's flight recorder puts its dumps.

The command line is never altered. A variable that the user has set stays as it is, and --no-arm leaves all of them.
"""

import os
from collections.abc import Mapping
from pathlib import Path

SITE = Path(__file__).resolve().parent / "site"
"""A folder that holds a sitecustomize and nothing else."""
DUMPS = "dumps"
LOGS = "GPUDOCTOR_RUN_LOGS"
TOKEN = "GPUDOCTOR_TOKEN"
"""By which the doctors of several nodes know each other (fleet/take_part.py): the job has no use for it."""
RECORDER = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
"""torch ProcessGroupNCCL.hpp: the dump when its watchdog gives up. How many entries are kept a rank sets itself
(site/): later releases warn of the older name, and earlier ones do not know the later."""
STEM = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
LATER_STEM = "TORCH_FR_DUMP_TEMP_FILE"


def armed(environment: Mapping[str, str], folder: Path | None) -> dict[str, str]:
    """The environment with what arms ranks, and the flight recorder on; its dumps go into the report's folder."""
    made = dict(environment)
    before = made.get("PYTHONPATH", "")
    made["PYTHONPATH"] = f"{SITE}{os.pathsep}{before}" if before else str(SITE)
    for name, value in RECORDER.items():
        made.setdefault(name, value)
    if folder is not None:
        made[LOGS] = str(folder)
    if folder is not None and STEM not in made and LATER_STEM not in made:
        place = folder / DUMPS
        try:
            place.mkdir(mode=0o700)
        except OSError:
            return made
        made[STEM] = f"{place}/rank_"
    return made


def without_token(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what the doctors know each other by."""
    return {name: value for name, value in environment.items() if name != TOKEN}
