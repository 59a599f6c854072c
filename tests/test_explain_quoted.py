"""What a speaker quotes of whoever refused: the fix is that reason's, and nothing else is said than the line shows."""

import io

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.explain.explain import explain
from gpudoctor.explain.own_fixes import BY_LINE

PULL = 'Warning  Failed  3s  kubelet  Failed to pull image "r.io/fit:3": rpc error: code = Unknown desc = '
SANDBOX = (
    "Warning  FailedCreatePodSandBox  2s  kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = "
)
MOUNT = 'Warning  FailedMount  2s  kubelet  MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32\n'
CLI = "nvidia-container-cli: "


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "kind", "fix"),
    [
        (PULL + "toomanyrequests: You have reached your pull rate limit", "image", "no more be pulled"),
        (PULL + "tls: failed to verify certificate: x509: certificate signed by unknown authority", "image", "CA"),
        (PULL + "write /var/lib/x: no space left on device: unknown", "disk-full", "no room"),
        (PULL + "no match for platform in manifest: not found", "image", "processor"),
        (
            SANDBOX + 'failed to setup network for sandbox "1": plugin type="aws-cni" failed (add): add cmd: failed to '
            "assign an IP address to container",
            "scheduler",
            "no address left",
        ),
        (SANDBOX + 'failed to get sandbox runtime: no runtime for "nvidia" is configured', "driver", "nvidia-ctk"),
        (MOUNT + "Output: mount.nfs: access denied by server while mounting a:/b", "permission", "refuses that mount"),
        (MOUNT + "Mounting command: mount\nOutput: mount: bad option; you might need a /sbin/mount.<type> helper "
         "program.", "dependency-mismatch", "nfs-common"),
        (CLI + "initialization error: nvcgo rpc error: timed out: unknown", "driver", "again, fewer at a time"),
        (CLI + "mount error: file creation failed: /x/nvidia-smi: no space left on device", "disk-full", "room"),
    ],
)  # fmt: skip
def test_the_fix_is_of_the_reason_that_is_quoted(text: str, kind: str, fix: str) -> None:
    seen = explain((), stdin=io.BytesIO(), texts=(text,))
    assert seen.kind == kind
    assert fix in f"{seen.causes[0].fix.text} {' '.join(map(str, seen.causes[0].fix.commands))}"
    assert not any(said in seen.causes[0].meaning for said in ("CUDA finds no device", "another kind"))


def test_every_reason_has_its_fix() -> None:
    for (cause, _), rows in BY_LINE.items():
        for _, variant in rows:
            assert isinstance(CAUSES[cause].variants[variant], Fix), (cause, variant)


def test_of_a_fix_that_stands_alone_only_its_own_meaning_is_told() -> None:
    assert CAUSES["no-gpu-visible"].meant("toolkit") == ""
    assert CAUSES["no-gpu-visible"].meant("") == CAUSES["no-gpu-visible"].meaning
    assert CAUSES["storage-stall"].meant("error")
