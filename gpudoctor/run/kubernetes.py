"""What Kubernetes itself says of the pod in which a run has ended.

Its API server is asked once, as the pod itself and for nothing but the pod; where its service account may not read pods
(403, the default), nothing is told. What the kubelet does by itself (Evicted, DeadlineExceeded, a node's shutdown) it
sends when all containers have ended (mergePodStatus, pkg/kubelet/status/status_manager.go): only of an older one a pod
sees it in time. OOMKilled is never said of the container in which we still are; memory.py sees that.
"""

import base64
import contextlib
import http.client
import os
import signal
import threading
from datetime import datetime

import msgspec
from msgspec import Struct

from gpudoctor.bounded import MIB, Refused, contents
from gpudoctor.lazy import lazy_re
from gpudoctor.run.end import ASKED, ENDING_SECONDS, RunEnded, asked_to_end
from gpudoctor.run.slurm import CLOCKS_SECONDS, died_at
from gpudoctor.run.verdict import Found, first_death
from gpudoctor.sure import LIKELY, PROVED, SEEN

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SECONDS = 4.0
MOST = 4 * MIB
"""etcd takes 1.5 MiB of an object."""
HOST, PORT = lazy_re(r"[0-9A-Za-z][0-9A-Za-z.:-]{0,252}|::[0-9A-Fa-f:]{1,40}"), lazy_re(r"[0-9]{1,5}")
NAME = lazy_re(r"[a-z0-9][a-z0-9.-]{0,252}")
WORDS = (
    (lazy_re(r"PreemptionByScheduler\b|Preempting\b|.*admit critical pod"), "preempted", "pod", PROVED),
    (lazy_re(r"WorkloadEvictedDueToPreempted\b|.*Preempted to accommodate"), "preempted", "pod", PROVED),
    (lazy_re(r".*low on resource: memory\b"), "host-out-of-memory", "evicted", PROVED),
    (
        lazy_re(r".*low on resource: (?:ephemeral|inodes)|Evicted: .*(?:EmptyDir volume|ephemeral (?:local )?storage)"),
        "disk-full",
        "evicted",
        PROVED,
    ),
    (lazy_re(r"DeadlineExceeded\b"), "time-limit", "pod", PROVED),
    (lazy_re(r"(?:Node)?Shutdown\b|.*\bnode shutdown\b"), "preempted", "node", PROVED),
    (lazy_re(r"EvictionByEvictionAPI\b"), "preempted", "node", SEEN),  # a drain, the autoscaler, the descheduler
    (lazy_re(r"DeletionBy(?:Device)?TaintManager\b"), "preempted", "node", LIKELY),  # or a node that was not heard from
    (lazy_re(r"DeletionByPodGC\b|NodeLost\b"), "node-lost", "", SEEN),
)
"""How "reason: message" begins -> cause, variant of its fix, how sure. Of the scheduler, pkg/controller (podgc,
tainteviction), pkg/registry/core/pod/storage/eviction.go, pkg/kubelet (eviction, preemption, nodeshutdown), and kueue's
pod_controller.go, whose condition is TerminationTarget."""
NOT_TOLD = (OSError, ValueError, ImportError, RecursionError, http.client.HTTPException, msgspec.DecodeError, Refused)
ENDING = ("DisruptionTarget", "TerminationTarget")


class _Metadata(Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    deletion_timestamp: datetime | None = None
    """When it is to be gone at the latest."""
    deletion_grace_period_seconds: int | None = None


class _Said(Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class _Status(_Said):
    conditions: tuple[_Said, ...] | None = None


class _Pod(Struct):
    metadata: _Metadata
    status: _Status


def kubernetes_word(ended: RunEnded, account: str = ACCOUNT) -> Found | None:
    """Why Kubernetes ended this pod; None: this is none, nothing is said in time, nobody asked the run to end or killed
    a process of it, or that had happened before. `account`: the folder of its service account."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    death = first_death(ended)
    by = -(death.status or 0) if death is not None else ended.status - 128
    if not HOST.fullmatch(host) or not PORT.fullmatch(port):
        return None
    if asked_to_end(ended) is None and by not in (*ASKED, signal.SIGKILL):
        return None
    pods: list[_Pod] = []

    def ask() -> None:
        with contextlib.suppress(*NOT_TOLD):
            pods.append(_asked(host, int(port), account))

    asking = threading.Thread(target=ask, daemon=True, name="asks Kubernetes")  # a name may take long, and so may bytes
    asking.start()
    asking.join(SECONDS)
    return _word(pods[0], died_at(ended)) if pods else None


def _asked(host: str, port: int, account: str) -> _Pod:
    import ssl  # here, for few runs end in a pod

    token = contents(f"{account}/token", MIB).decode("ascii").strip()
    own = _Metadata(name=os.environ.get("HOSTNAME", ""))
    with contextlib.suppress(ValueError, LookupError, msgspec.DecodeError):  # one that is not bound names no pod
        claims = msgspec.json.decode(base64.urlsafe_b64decode(token.split(".")[1] + "=="), type=dict[str, msgspec.Raw])
        bound = msgspec.json.decode(claims["kubernetes.io"], type=dict[str, msgspec.Raw])
        own = msgspec.json.decode(bound["pod"], type=_Metadata)
    namespace = contents(f"{account}/namespace", MIB).decode("ascii").strip()
    if not NAME.fullmatch(namespace) or not NAME.fullmatch(own.name):
        raise Refused("it has no name")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # with certificate and name, and nothing that a variable sets
    context.load_verify_locations(cadata=contents(f"{account}/ca.crt", MIB).decode("ascii"))
    connection = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)
    try:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "gpudoctor"}
        connection.request("GET", f"/api/v1/namespaces/{namespace}/pods/{own.name}", headers=headers)
        response = connection.getresponse()
        body = response.read(MOST + 1) if response.status == http.client.OK else b""
    finally:
        connection.close()
    pod = msgspec.json.decode(body if len(body) <= MOST else b"", type=_Pod)
    if own.uid and pod.metadata.uid != own.uid:
        raise Refused("it is another pod of that name")
    return pod


def _word(pod: _Pod, died: float) -> Found | None:
    about = pod.metadata
    gone = about.deletion_timestamp.timestamp() if about.deletion_timestamp is not None else 0.0
    deleted = gone - (about.deletion_grace_period_seconds or 0)
    said = [(pod.status.reason, pod.status.message)]
    for each in pod.status.conditions or ():
        when = each.last_transition_time.timestamp() if each.last_transition_time is not None else 0.0
        if each.type in ENDING and each.status == "True" and _fits(when, max(when, gone), died):
            said.insert(0, (each.reason, each.message))
    for reason, message in said:
        text = f"{reason}: {message or ''}"
        for pattern, cause, variant, sure in WORDS:
            if reason and pattern.match(text):
                summary = f"Kubernetes ended the pod ({text.rstrip(': ')})"
                return Found(cause=cause, confidence=sure, summary=summary, variant=variant)
    if not _fits(deleted, gone, died):
        return None
    how = "by somebody, or by what had made it (a Job, an operator, a queue)"
    summary = f"the pod was deleted in Kubernetes, {how}"
    return Found(cause="cancelled", confidence=SEEN, summary=summary, variant="pod")


def _fits(begun: float, gone: float, died: float) -> bool:
    """Whether what began then may be why it died."""
    return begun - CLOCKS_SECONDS <= died <= gone + ENDING_SECONDS
