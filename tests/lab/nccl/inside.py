"""In a node (node.py): has gpudoctor read it, then starts NCCL under each setting: inside.py PLAN.json OUT.

Snapshots come to OUT/snapshot-NUMBER.json, what NCCL logs to OUT/NUMBER.log. Imports nothing of the lab.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

LOGGED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,NET,ENV,GRAPH"}


def main() -> None:
    plan, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    around = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    with (out / "capture.log").open("wb") as log:
        for number, settings in enumerate(plan["captures"]):
            file = str(out / f"snapshot-{number}.json")
            words = [sys.executable, "-m", "gpudoctor", "capture", "--no-torch", "-o", file]
            subprocess.run(words, env=around | settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    for number, run in enumerate(plan["runs"]):
        words = [sys.executable, plan["rank"], plan["standins"], run["library"], str(run["gpus"])]
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
