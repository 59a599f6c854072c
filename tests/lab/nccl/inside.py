"""In a node (node.py): has gpudoctor read it, then starts NCCL under each setting: inside.py PLAN.json OUT.

Snapshots come to OUT/snapshot-NUMBER.json, what NCCL logs to OUT/NUMBER.log. A plan that is open has no runs yet: they
come as OUT/runs.json once somebody outside has seen the snapshots (OUT/captured says so). Imports nothing of the lab.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LOGGED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,NET,ENV,GRAPH"}
ENTER = 'mount --rbind "$0/dev" /dev && mount --rbind "$0/sys" /sys && exec "$@"'
"""The node beside (node.py), whose files lie in $STAGE."""
PATIENCE = 60.0


def told_later(out: Path) -> list[dict[str, Any]]:
    (out / "captured").touch()
    until = time.monotonic() + PATIENCE
    while not (out / "runs.json").exists():
        if time.monotonic() > until:
            raise TimeoutError("nobody has said what is to be run")
        time.sleep(0.05)
    runs: list[dict[str, Any]] = json.loads((out / "runs.json").read_text())
    return runs


def main() -> None:
    plan, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    around = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    with (out / "capture.log").open("wb") as log:
        for number, settings in enumerate(plan["captures"]):
            file = str(out / f"snapshot-{number}.json")
            words = [sys.executable, "-m", "gpudoctor", "capture", "--no-torch", "-o", file]
            if settings.get("STAGE"):
                words = ["unshare", "-m", "sh", "-c", ENTER, settings["STAGE"], *words]
            subprocess.run(words, env=around | settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    for number, run in enumerate(plan["runs"] if not plan.get("open") else told_later(out)):
        words = [sys.executable, plan["rank"], plan["standins"], run["library"], str(run["gpus"]), *run["more"]]
        environment = around | LOGGED | {"FAKE_CUDA_RUNTIME": run["runtime"]} | run["settings"]
        with (out / f"{number}.log").open("wb") as log:
            try:
                subprocess.run(
                    words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60, check=False
                )
            except subprocess.TimeoutExpired:
                log.write(b"\nRESULT init -1 did not end within 60 s |\n")


if __name__ == "__main__":
    main()
