"""Kubernetes' own word at the end of a run in a pod: from a real TLS server that answers as the API server does."""

import base64
import json
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gpudoctor.read.kernel_log import KernelLine
from gpudoctor.run import after, kubernetes
from gpudoctor.run.end import RunEnded, SignalSeen
from gpudoctor.run.kubernetes import MOST, kubernetes_word
from gpudoctor.sure import LIKELY, PROVED, SEEN
from tests.lab.requirements import require
from tests.test_run_end import OOM_LINE, ended, kernel

__all__ = ["kernel"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux")
UID = "0b6f1c52-9a7e-4c1d-8a55-6d1f5d1f0a77"
PATH = "/api/v1/namespaces/team-a/pods/fit-0-x7k2p"
Send = Callable[[BaseHTTPRequestHandler], None]


def token_of(**pod: str) -> str:
    claims = {"iss": "https://kubernetes.default.svc", "kubernetes.io": {"namespace": "team-a", "pod": pod}}
    return f"eyJh.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


TOKEN = token_of(name="fit-0-x7k2p", uid=UID)


def at(ago: float) -> str:
    return datetime.fromtimestamp(time.time() - ago, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def disrupted(reason: str, message: str = "", ago: float = 2, **more: str) -> dict[str, object]:
    known = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return {"conditions": [{"type": "Ready", "status": "True"}, {**known, "lastTransitionTime": at(ago), **more}]}


def pod(status: dict[str, object], deleted: float | None = 2, uid: str = UID, grace: int = 30) -> bytes:
    """`deleted`: seconds ago."""
    gone = (
        {"deletionTimestamp": at(deleted - grace), "deletionGracePeriodSeconds": grace} if deleted is not None else {}
    )
    about = {"name": "fit-0-x7k2p", "namespace": "team-a", "uid": uid, "managedFields": [{"manager": "k"}], **gone}
    container = {"name": "fit", "state": {"running": {}}, "restartCount": 1}
    container["lastState"] = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at(150)}}
    return json.dumps(
        {"kind": "Pod", "metadata": about, "status": {"phase": "Running", "containerStatuses": [container], **status}}
    ).encode()


def answer(body: bytes, status: int = 200) -> Send:
    def send(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return send


def dribble(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    for _ in range(30):
        request.wfile.write(b" ")
        time.sleep(0.1)


class Api:
    """Of one cluster: what it is to answer, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[tuple[str, str]]()
        self.send: Send = answer(b"")

    def told(self, job: RunEnded) -> object:
        return kubernetes_word(job, str(self.folder))


def made_by_itself(certificate: Path, key: Path) -> None:
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=kubernetes"
    command = [*made.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    require(shutil.which("openssl"), "no openssl")
    folder = tmp_path_factory.mktemp("ca")
    made_by_itself(folder / "crt", folder / "key")
    return folder / "crt", folder / "key"


@pytest.fixture
def api(certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    folder = tmp_path / "account"
    folder.mkdir()
    found = Api(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append((self.path, self.headers["Authorization"]))
            try:
                found.send(self)
            except OSError:
                pass  # it was not waited for

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *about: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "namespace").write_text("team-a")
    (folder / "ca.crt").write_bytes(certificate[0].read_bytes())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_address[1]))
    monkeypatch.setenv("HOSTNAME", "fit-0")  # an indexed Job's: no pod is called so
    yield found
    server.shutdown()
    server.server_close()


def asked_to_end(folder: Path, **more: object) -> RunEnded:
    asked = SignalSeen(number=signal.SIGTERM, seconds=99.0)
    return ended(folder, "step 1\n", 143, signals=(asked,), **more)


@pytest.mark.parametrize(
    ("status", "cause", "sure"),
    [
        (
            disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"),
            *("preempted", PROVED),
        ),
        (disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), "preempted", SEEN),
        (disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"), "preempted", LIKELY),
        (disrupted("DeletionByPodGC", "PodGC: node no longer exists"), "node-lost", SEEN),
        (disrupted("WorkloadEvictedDueToPreempted", type="TerminationTarget"), "preempted", PROVED),
        (disrupted("TerminationByKubelet", "The node was low on resource: memory."), "host-out-of-memory", PROVED),
        ({"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}, "disk-full", PROVED),
        (
            {"reason": "Evicted", "message": 'Usage of EmptyDir volume "s" exceeds the limit "50Mi". '},
            "disk-full",
            PROVED,
        ),
        (
            {
                "reason": "Evicted",
                "message": "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            },
            *("disk-full", PROVED),
        ),
        (disrupted("TerminationByKubelet") | {"reason": "Preempting"}, "preempted", PROVED),
        ({"reason": "DeadlineExceeded", "message": "Pod was active on the node longer"}, "time-limit", PROVED),
        (
            {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."},
            *("preempted", PROVED),
        ),
        ({}, "cancelled", SEEN),
        (disrupted("PreemptionByScheduler", status="False"), "cancelled", SEEN),
        ({"conditions": None}, "cancelled", SEEN),
    ],
)
def test_why_the_pod_was_ended(
    status: dict[str, object], cause: str, sure: float, api: Api, tmp_path: Path, kernel: list[KernelLine]
) -> None:
    api.send = answer(pod(status))
    found = kubernetes_word(asked_to_end(tmp_path), str(api.folder))
    assert found is not None and (found.cause, found.confidence) == (cause, sure), found
    assert api.asked == [(PATH, f"Bearer {TOKEN}")]
    assert found.restart


def test_it_is_told_at_the_end_and_its_token_is_not(
    api: Api, tmp_path: Path, kernel: list[KernelLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(after, "kubernetes_word", partial(kubernetes_word, account=str(api.folder)))
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    api.send = answer(pod(disrupted("PreemptionByScheduler", message)))
    told = after.told(asked_to_end(tmp_path))
    assert told.cause == "preempted" and told.restart == "as it is" and told.confidence == PROVED, told
    assert any(f"Kubernetes ended the pod (PreemptionByScheduler: {message})" in line for line in told.lines), told
    assert any("priority class" in line for line in told.lines), told
    kept = b"".join(place.read_bytes() for place in tmp_path.iterdir() if place.is_file())
    assert TOKEN not in repr(told) and TOKEN.encode() not in kept
    assert after.told(ended(tmp_path, f"{OOM_LINE}\n", 1)).cause == "gpu-out-of-memory" and len(api.asked) == 1


def test_nothing_is_asked_where_nobody_ended_it_or_this_is_no_pod(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.send = answer(pod({}))
    for status in (1, -signal.SIGSEGV, 134):
        assert api.told(ended(tmp_path, "", status)) is None
    for name, value in (("HOST", ""), ("HOST", "127.0.0.1/x?"), ("PORT", "")):
        with monkeypatch.context() as pod_of_none:
            pod_of_none.setenv(f"KUBERNETES_SERVICE_{name}", value)
            assert api.told(asked_to_end(tmp_path)) is None
    for name, text in (
        ("namespace", "../kube-system"),
        ("token", token_of(name="a/../b")),
        ("token", ""),
        ("ca.crt", ""),
    ):
        before = (api.folder / name).read_text()
        (api.folder / name).write_text(text)
        assert api.told(asked_to_end(tmp_path)) is None or (name, text) == ("token", "")
        (api.folder / name).write_text(before)
    assert all(path.startswith("/api/v1/namespaces/team-a/pods/fit-0") for path, _ in api.asked)
    (api.folder / "ca.crt").unlink()
    assert api.told(asked_to_end(tmp_path)) is None
    assert kubernetes_word(asked_to_end(tmp_path), str(tmp_path / "none")) is None


def test_a_token_that_is_not_bound_leaves_the_name_of_the_host(api: Api, tmp_path: Path) -> None:
    (api.folder / "token").write_text("opaque")
    api.send = answer(pod({}, uid="another"))
    assert api.told(ended(tmp_path, "", 137)) is not None
    assert api.asked == [(PATH.replace("fit-0-x7k2p", "fit-0"), "Bearer opaque")]


def test_its_word_is_of_this_run(api: Api, tmp_path: Path) -> None:
    job = asked_to_end(tmp_path)
    others = {
        "another pod of its name": pod({}, uid="another"),
        "nobody deleted it, and it ran out of memory before": pod({}, deleted=None),
        "it was deleted after it had died": pod(disrupted("EvictionByEvictionAPI", ago=-60), deleted=-60),
        "a disruption long ago that did not come to pass": pod(
            disrupted("PreemptionByScheduler", ago=900), deleted=None
        ),
    }
    for why, body in others.items():
        api.send = answer(body)
        assert api.told(job) is None, why
    api.send = answer(pod(disrupted("EvictionByEvictionAPI", ago=900), deleted=900, grace=3600))
    found = kubernetes_word(job, str(api.folder))
    assert found is not None and found.cause == "preempted", "it had an hour to save"


@pytest.mark.parametrize(
    "send",
    [
        answer(b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}', 403),
        answer(pod({}), 500),
        answer(b""),
        answer(b"\x00\xff garbage"),
        answer(b"[" * 200_000),
        answer(b'{"metadata":{"uid":7},"status":[]}'),
        answer(pod({"conditions": [{"type": "DisruptionTarget", "lastTransitionTime": "yesterday"}]})),
        answer(pod({"message": "x" * MOST})),
        lambda request: request.wfile.write(b"no HTTP\r\n\r\n"),
        lambda request: request.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\n\r\n"),
    ],
)
def test_no_answer_tells_nothing(send: Send, api: Api, tmp_path: Path) -> None:
    api.send = send
    assert api.told(asked_to_end(tmp_path)) is None and len(api.asked) == 1


@pytest.mark.parametrize("send", [dribble, lambda request: time.sleep(3)])
def test_a_slow_answer_is_not_waited_for(send: Send, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "SECONDS", 0.6)
    api.send = send
    began = time.monotonic()
    assert api.told(asked_to_end(tmp_path)) is None and time.monotonic() - began < 2.5


def test_a_server_without_the_clusters_certificate_gets_no_token(api: Api, tmp_path: Path) -> None:
    other = tmp_path / "other"
    made_by_itself(other, Path(f"{other}.key"))
    (api.folder / "ca.crt").write_bytes(other.read_bytes())
    api.send = answer(pod({}))
    assert api.told(asked_to_end(tmp_path)) is None and not api.asked
