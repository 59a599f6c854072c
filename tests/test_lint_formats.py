"""Manifests with one mistake each that a real API server (v1.20.2) refused, and their like that it took."""

import pytest

from tests.lint_cases.judged import errors, job_of

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: eval, labels: {{team: {label}}}}}\nspec:\n  restartPolicy: Never\n"
    "  tolerations: [{{key: nvidia.com/gpu, operator: Exists{toleration}}}]\n  {init}containers:\n"
    "    - name: eval\n      image: r/eval:4\n      command: [torchrun, --standalone, --nproc-per-node=1, e.py]\n"
    "      ports: [{{name: {port}, containerPort: {number}}}]\n      livenessProbe: {{{probe}}}\n"
    "      env: [{{name: NODE, valueFrom: {{fieldRef: {{fieldPath: {field}}}}}}}]\n"
    "      securityContext: {{privileged: true{security}}}\n"
    "      resources: {{{resources}}}\n      volumeMounts: [{{name: shm, mountPath: /dev/shm}}]\n"
    "  volumes: [{{name: shm, {volume}}}, {{name: c, configMap: {{name: c, items: [{{key: k, path: {path}}}]}}}}]\n"
)
RIGHT = {
    "label": "speech",
    "toleration": ", effect: NoSchedule",
    "init": "",
    "port": "metrics",
    "number": "9400",
    "probe": "exec: {command: [cat, /a]}, periodSeconds: 30",
    "field": "spec.nodeName",
    "security": "",
    "resources": "limits: {nvidia.com/gpu: 1}",
    "volume": "emptyDir: {medium: Memory}",
    "path": "conf/k.yaml",
}
WRONG = [
    ("label", "speech group"),
    ("toleration", ", value: present"),
    ("toleration", ", effect: NoSchedule, tolerationSeconds: 60"),
    ("init", "initContainers: [{name: i, image: i, readinessProbe: {exec: {command: [a]}}}]\n  "),
    ("port", "gpu-metrics-exporter"),
    ("number", "94000"),
    ("probe", "exec: {command: [cat, /a]}, periodSeconds: -30"),
    ("probe", "exec: {command: [cat, /a]}, tcpSocket: {port: 9400}"),
    ("field", "status.hostIp"),
    ("security", ", allowPrivilegeEscalation: false"),
    ("volume", "emptyDir: {medium: Memory}, hostPath: {path: /dev/shm}"),
    ("path", "/k.yaml"),
]
TAKEN = [
    ("label", '""'),
    ("toleration", ", effect: NoExecute, tolerationSeconds: 60"),
    (
        "init",
        "initContainers: [{name: i, image: i, restartPolicy: Always, readinessProbe: {exec: {command: [a]}}}]\n  ",
    ),
    ("port", "m-1"),
    ("number", "65535"),
    ("probe", "tcpSocket: {port: metrics}, initialDelaySeconds: 0"),
    ("field", "metadata.labels['app.kubernetes.io/name']"),
    ("volume", "emptyDir: {}"),
    ("path", "..data"),
]
BESIDE = "---\n" + POD.format(**RIGHT)
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {{name: {}}}\nspec:\n  {}\n  ports: [{}]\n"
CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\nspec:\n  {}\n  resources: {}\n"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  {}: x\n"
OTHERS = [
    (SERVICE, ("7b-master", "clusterIP: None", "{port: 29500}"), ("master-7b", "clusterIP: None", "{port: 29500}")),
    (SERVICE, ("a", "clusterIP: None", "{port: 1}, {port: 2}"), ("a", "clusterIP: None", "{port: 1, name: b}")),
    (SERVICE, ("a", "clusterIP: None\n  type: NodePort", "{port: 1}"), ("a", "type: NodePort", "{port: 1}")),
    (CLAIM, ("accessModes: [ReadWriteMany]", "{limits: {storage: 2Ti}}"),
     ("accessModes: [ReadWriteMany]", "{requests: {storage: 2Ti}}")),
    (CLAIM, ("accessModes: [ReadWriteMany]", "{requests: {storage: 2 Ti}}"),
     ("accessModes: [ReadWriteOnce]", "{requests: {storage: 2T}}")),
    (CONFIG, ("etc/nccl.conf",), ("nccl.conf",)),
]  # fmt: skip


@pytest.mark.parametrize(("part", "value"), WRONG)
def test_one_value_that_the_api_server_refuses(part: str, value: str) -> None:
    assert "K39" in errors(job_of("", POD.format(**RIGHT | {part: value})))


@pytest.mark.parametrize(("part", "value"), TAKEN)
def test_values_that_it_takes(part: str, value: str) -> None:
    assert "K39" not in errors(job_of("", POD.format(**RIGHT | {part: value})))


@pytest.mark.parametrize(("text", "wrong", "right"), OTHERS)
def test_what_stands_beside_pods(text: str, wrong: tuple[str, ...], right: tuple[str, ...]) -> None:
    assert "K39" in errors(job_of("", text.format(*wrong) + BESIDE))
    assert "K39" not in errors(job_of("", text.format(*right) + BESIDE))
