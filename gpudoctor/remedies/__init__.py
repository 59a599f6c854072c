"""The exceptions whose words tell what solves them, one family of speakers a file: `REMEDIES`, asked in their order."""

import functools
from collections.abc import Iterable, Iterator, Mapping

from gpudoctor.cause import Fix
from gpudoctor.fault_classes import Class
from gpudoctor.remedies import (
    builds,
    checkpoints,
    clusters,
    data,
    data_sets,
    environments,
    frameworks,
    installers,
    libraries,
    lower_layers,
    machines,
    models,
    networks,
    nodes,
    options,
    packages,
    parallel,
    plain,
    programs,
    python_values,
    releases,
    services,
    starting,
    systems,
    tensors,
    torch_calls,
    transfers,
    vision,
    waits,
)
from gpudoctor.remedy import Remedy

REMEDIES: tuple[Remedy, ...] = tuple(
    remedy
    for family in (
        *(waits, libraries, vision, data_sets, releases, starting, lower_layers, frameworks),
        *(parallel, torch_calls, tensors, data, checkpoints, models, environments, builds),
        *(
            packages,
            programs,
            machines,
            systems,
            services,
            nodes,
            clusters,
            networks,
            transfers,
            installers,
            options,
            plain,
            python_values,
        ),
    )
    for remedy in family.REMEDIES
)
OF_OTHER_CAUSES: frozenset[Class] = frozenset(
    {"gpu-memory", "host-memory", "disk-full", "no-device", "import", "download", "shared-memory"}
)
"""Classes of which a cause of their own tells, and not `program-error`."""
MOST = 3_000
"""Characters of a message that are asked about."""


OWN: tuple[Remedy, ...] = tuple(
    remedy for remedy in REMEDIES if remedy.judged is None or remedy.judged.kind not in OF_OTHER_CAUSES
)
"""Those of `program-error`."""


def fixes_of(kind: Class) -> dict[str, Fix]:
    """The variants of the cause that exceptions of this class have, by the remedies' ids."""
    return {remedy.id: remedy.fix for remedy in REMEDIES if remedy.judged and remedy.judged.kind == kind}


def remedy_for(type_name: str, message: str) -> tuple[Remedy, Mapping[str, str]] | None:
    """What is known of an exception, with the values of its message."""
    return _remedy_for(type_name, message[:MOST])


@functools.lru_cache(maxsize=64)
def _remedy_for(type_name: str, message: str) -> tuple[Remedy, Mapping[str, str]] | None:
    """Asked for its class and for its fix, and of each of a chain. A KeyError says its key, and nothing behind it."""
    first = message.partition("\n")[0]
    return next(_found(REMEDIES, type_name, message), None) or (
        next(_found(REMEDIES, type_name, first), None) if type_name.endswith("KeyError") and first != message else None
    )


def remedy_of_line(line: str) -> tuple[Remedy, Mapping[str, str]] | None:
    """What is known of a line that no exception wrote."""
    return next(_found((remedy for remedy in REMEDIES if remedy.lines), "", line), None)


def _found(remedies: Iterable[Remedy], type_name: str, message: str) -> Iterator[tuple[Remedy, Mapping[str, str]]]:
    for remedy in remedies:
        values = remedy.match(type_name, message[:MOST])
        if values is not None:
            yield remedy, values


__all__ = ["OWN", "REMEDIES", "fixes_of", "remedy_for", "remedy_of_line"]
