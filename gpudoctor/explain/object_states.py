"""What the text of a Kubernetes object tells (kubectl get -o yaml and -o json, kubectl describe): its states, of all
its fields. The names are those of PodStatus, ContainerState, JobCondition and Event in k8s.io/api."""

from collections.abc import Sequence

from gpudoctor.lazy import lazy_re

OBJECT = lazy_re(
    r'^\s{0,12}"?(?:kind"?: "?(?:Pod|Job|List|Event|PodList|JobList|EventList)"?,?|containerStatuses"?: ?\[?)\s*$'
)
STATE = lazy_re(r'^[\s-]*"?(?:phase|reason|message|exitCode|signal)"?:\s')
BEFORE = lazy_re(r'^(?P<deep>[\s-]{0,200})(?:Last State:|"?lastState"?:)')
"""How the container ended before it was started again."""
COMPLETED = lazy_re(r'^[\s-]{0,200}(?:"?reason"?|Reason):\s{1,20}"?Completed"?,?\s*$')


def states(numbered: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Of an object's fields those that tell a state; of any text all lines but the good end of a container that was
    started again behind it."""
    of_object = any(OBJECT.match(text) for _, text in numbered)
    kept: list[tuple[int, str]] = []
    deep: int | None = None
    for number, text in numbered:
        indent = len(text) - len(text.lstrip())
        if deep is not None and indent <= deep:
            deep = None
        if match := BEFORE.match(text):
            deep = len(match["deep"])
        is_over = deep is not None and COMPLETED.match(text)
        if not is_over and (not of_object or STATE.match(text)):
            kept.append((number, text))
    return kept


__all__ = ["states"]
