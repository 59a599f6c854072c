"""The file systems that training writes to, told apart by what they hold."""

from collections.abc import Iterator

from gpudoctor.knowledge.presence import if_present
from gpudoctor.snapshot import Snapshot, Space, UsedPath


def file_systems(machine: Snapshot) -> Iterator[list[tuple[UsedPath, Space]]]:
    """The used paths of each. Raises `NotRead` at the end, when all that was read has been given."""
    users: dict[tuple[str, int, int], list[tuple[UsedPath, Space]]] = {}
    for used in machine.host.paths.value:
        if used.space.is_read:
            space = used.space.value
            # Roles that share a file system share a problem; sizes tell file systems apart well enough for that.
            users.setdefault((space.filesystem, space.total_bytes, space.total_inodes), []).append((used, space))
    yield from users.values()
    for used in machine.host.paths.value:
        if_present(used.space)
