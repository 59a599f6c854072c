"""What the API server wants of single values of core kinds, beyond their types: numbers, names, one of several.

Source: kubernetes pkg/apis/core/validation/validation.go and apimachinery's util/validation, whose words are quoted.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from gpudoctor.lint.model import Manifest
from gpudoctor.lint.pods import containers
from gpudoctor.lint.rules.manifest_values import Refusal, by_path, children

CORE = ("v1", "batch/v1", "apps/v1")
PORTS = 65535
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HANDLERS = {"exec", "httpGet", "tcpSocket", "grpc"}
OF_THE_POD = (
    r"metadata\.(?:name|namespace|uid)|metadata\.(?:annotations|labels)\['.+'\]|"
    r"spec\.(?:nodeName|serviceAccountName)|status\.(?:hostIPs?|podIPs?)"
)


def _is_count(text: str) -> bool:
    return re.fullmatch(r"-\d+", text) is None


def _is_port(text: str) -> bool:
    return not text.lstrip("-").isdecimal() or 1 <= int(text) <= PORTS


def _is_port_name(text: str) -> bool:
    return text.isdecimal() or (
        re.fullmatch(r"(?=.*[a-z])[a-z0-9](?:-?[a-z0-9])*", text) is not None and len(text) <= 15
    )


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


FORMATS: tuple[tuple[str, Callable[[str], bool], str, str, str], ...] = (
    (r"(?:\w+Seconds|\w+Threshold|backoffLimit|parallelism|completions|replicas|runAs(?:User|Group)|fsGroup)",
     _is_count, "is less than 0", "must be greater than or equal to 0", "Write 0 or more."),
    (r"(?:containerPort|hostPort|nodePort|port|targetPort)", _is_port,
     "is no port", "must be between 1 and 65535, inclusive", "Write the port that the program listens on."),
    (r"(?:containers\.\d+\.ports\.\d+\.name|targetPort|(?:httpGet|tcpSocket)\.port)", _is_port_name,
     "is no name of a port", "must be no more than 15 characters of [a-z0-9-], with a letter",
     "Write at most 15 lower-case letters, digits and single hyphens."),
    (r"(?:configMap|secret|downwardAPI)\.items\.\d+\.path|subPath", _matches(r"(?!/)(?!(?:.*/)?\.\.(?:/|$)).*"),
     "leads out of the volume", "must be a relative path, and must not contain '..'",
     "Write the path below the mount, without a / in front."),
    (r"fieldRef\.fieldPath", _matches(OF_THE_POD), "is no field that a variable can have",
     "field label not supported", "Write metadata.name, spec.nodeName, status.podIP or status.hostIP."),
    (r"(?:labels|matchLabels|nodeSelector|selector)\.[^.]*", _matches(r"(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?"),
     "is no value of a label", "a valid label must be an empty string or at most 63 of [A-Za-z0-9-_.]",
     "Write letters, digits, -, _ and ., with a letter or digit at both ends."),
    (r"containers\.\d+\.image", _matches(r"\S(?:.*\S)?|"), "has a blank at its end",
     "must not have leading or trailing whitespace", "Take the blank out."),
)  # fmt: skip
"""How a path ends, of which values are right, what is wrong of the others, the API server's words, the fix."""


def formats(manifest: Manifest) -> Iterator[Refusal]:
    """Of each value by itself."""
    pods = {container.path[:-2] for container in containers(manifest)}
    inside = manifest.api_version in CORE and manifest.kind not in ("ConfigMap", "Secret")
    for value in manifest.values:
        if not inside and not any(pod and value.path[: len(pod)] == pod for pod in pods):
            continue
        if {"annotations", "data", "env"} & {*value.path[:-1]} and value.path[-1] != "fieldPath":
            continue
        path = ".".join(part.replace(".", "_") for part in value.path)
        in_volume = "volumes" in value.path and value.path[-1] == "fieldPath"
        for ends, is_right, wrong, says, fix in FORMATS:
            if not in_volume and re.search(rf"(?:^|\.|[cC])(?:{ends})$", path) and not is_right(value.value):
                yield value, f"{value.path[-1]} {value.value or 'of nothing'} {wrong}", says, fix
                break


def together(manifest: Manifest) -> Iterator[Refusal]:
    """Of values beside each other, in pods."""
    values = {value.path: value for value in manifest.values}
    for pod in dict.fromkeys(container.path[:-2] for container in containers(manifest)):
        for index in children(manifest, *pod, "tolerations"):
            at = {path[-1]: value for path, value in values.items() if path[:-1] == (*pod, "tolerations", index)}
            operator, effect = (at[key].value if key in at else "" for key in ("operator", "effect"))
            if operator == "Exists" and "value" in at and at["value"].value:
                says = "value must be empty when `operator` is 'Exists'"
                yield at["value"], "a toleration of whatever value has a value", says, "Take value out, or write Equal."
            if "tolerationSeconds" in at and effect != "NoExecute":
                says = "effect must be 'NoExecute' when `tolerationSeconds` is set"
                summary = f"tolerationSeconds stands beside the effect {effect or 'of all'}"
                yield at["tolerationSeconds"], summary, says, "Take it out, or write effect: NoExecute."
        for index in children(manifest, *pod, "volumes"):
            sources = [key for key in children(manifest, *pod, "volumes", index) if key not in ("name", "<<")]
            sources += [path[-1] for path in manifest.empty if path[:-1] == (*pod, "volumes", index)]
            if len({*sources}) > 1 and (name := values.get((*pod, "volumes", index, "name"))) is not None:
                summary = f"the volume {name.value} is {' and '.join(dict.fromkeys(sources))}"
                yield name, summary, "may not specify more than 1 volume type", "Keep one of them."
        for index in children(manifest, *pod, "initContainers"):
            of_it = (*pod, "initContainers", index)
            first = next(
                (value for path, value in values.items() if path[:-1][: len(of_it)] == of_it and {*PROBES} & {*path}),
                None,
            )
            if first is not None and (*of_it, "restartPolicy") not in values:
                says = "must not be set for init containers without restartPolicy=Always"
                yield first, "an init container has a probe", says, "Take it out."
    for container in containers(manifest):
        own = {path: value for path, value in container.values.items() if path}
        for probe in PROBES:
            handlers = {path[1]: value for path, value in own.items() if path[0] == probe and path[1:2]}
            ways = [value for key, value in handlers.items() if key in HANDLERS]
            if len(ways) > 1:
                says = "may not specify more than 1 handler type"
                yield ways[1], f"{probe} asks in {len(ways)} ways", says, "Keep one of them."
        may, all_rights = (own.get(("securityContext", key)) for key in ("allowPrivilegeEscalation", "privileged"))
        if may is not None and all_rights is not None and (may.value, all_rights.value) == ("false", "true"):
            says = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield may, "a privileged container may not be kept from gaining rights", says, "Take one of the two out."


def whole(manifest: Manifest) -> Iterator[Refusal]:
    """Of Service, ConfigMap, Secret and PersistentVolumeClaim."""
    values = by_path(manifest)
    name = values.get("metadata.name")
    if manifest.api_version != "v1" or name is None:
        return
    if manifest.kind in ("ConfigMap", "Secret"):
        for value in manifest.values:
            is_key = value.path[0] in ("data", "stringData", "binaryData") and len(value.path) == 2
            if is_key and not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", value.path[1]):
                says = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
                yield value, f"{value.path[1]} is no key of a {manifest.kind}", says, "Write it without a / or blank."
    if manifest.kind == "PersistentVolumeClaim":
        if "spec.resources.requests.storage" not in values:
            yield name, "the claim requests no storage", "resources[storage]: Required value", "Write requests.storage."
        if not children(manifest, "spec", "accessModes"):
            says = "at least 1 access mode is required"
            yield name, "the claim has no access mode", says, "Write accessModes: [ReadWriteMany]."
    if manifest.kind == "Service":
        if not re.fullmatch(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", name.value):
            says = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with a letter"
            yield name, f"{name.value} is no name of a Service", says, "Begin it with a letter, and use no dots."
        ports = children(manifest, "spec", "ports")
        names = Counter(values[at].value if (at := f"spec.ports.{index}.name") in values else "" for index in ports)
        if len(ports) > 1 and names[""] and (first := values.get(f"spec.ports.{ports[0]}.port")) is not None:
            yield first, "of several ports, one has no name", "ports[0].name: Required value", "Name each of them."
        kind, address = values.get("spec.type"), values.get("spec.clusterIP")
        if kind is not None and address is not None and address.value == "None" and kind.value in TO_THE_OUTSIDE:
            says = f"may not be set to 'None' for {kind.value} services"
            yield address, f"a {kind.value} has no address of its own", says, "Take the type out, or clusterIP."


TO_THE_OUTSIDE = ("NodePort", "LoadBalancer", "ExternalName")
CHECKS = (formats, together, whole)
