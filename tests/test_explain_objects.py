"""Kubernetes' objects as kubectl prints them: what they tell of a container, and what of their fields tells nothing."""

import io
import json
from typing import Any

import pytest
import yaml

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:40Z"}}


def ended(code: int, reason: str) -> dict[str, Any]:
    return {"terminated": {"containerID": "containerd://c37", "exitCode": code, "reason": reason}}


def pod(phase: str, state: dict[str, Any], before: dict[str, Any] | None = None, restarts: int = 0) -> dict[str, Any]:
    container = {"lastState": before or {}, "name": "fit", "ready": phase == "Running", "restartCount": restarts}
    ready = {"status": str(phase == "Running"), "type": "Ready", "lastProbeTime": None}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "fit-0", "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 30, "tolerations": [{"key": "node.kubernetes.io/unreachable"}]},
        "status": {
            "conditions": [ready],
            "containerStatuses": [{**container, "state": state}],
            "phase": phase,
            "qosClass": "BestEffort",
            "startTime": "2026-01-01T00:00:00Z",
        },
    }


PODS: dict[str, tuple[dict[str, Any], tuple[int, str | None]]] = {
    "ended by itself": (pod("Succeeded", ended(0, "Completed")), (0, None)),
    # a probe that fails ends a container that takes SIGTERM well: it ends with 0, again and again
    "started again": (pod("Running", RUNNING, ended(0, "Completed"), 5), (3, None)),
    "ended with 1": (pod("Failed", ended(1, "Error")), (1, "exception")),
    "runs": (pod("Running", RUNNING), (3, None)),
    "want of memory": (pod("Running", RUNNING, ended(137, "OOMKilled"), 1), (1, "host-memory")),
}


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize(("state", "wanted"), PODS.values(), ids=PODS)
def test_a_pod_tells_its_states(state: dict[str, Any], wanted: tuple[int, str | None], form: str) -> None:
    text = yaml.safe_dump(state) if form == "yaml" else json.dumps(state, indent=4)
    said: Explanation = explain(["-"], stdin=io.BytesIO(text.encode()))
    assert (0 if said.well else said.exit_status, said.kind) == wanted, said
    assert "BestEffort" not in (said.unknown or "") and not said.advice
