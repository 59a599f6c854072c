"""Kubernetes manifests and Ray job files: their values with paths, and the commands of their containers."""

from gpudoctor.lint.model import Facts, Invocation, Manifest


def looks_like_manifest(text: str) -> bool:
    """Whether a text is YAML or JSON with apiVersion and kind."""
    return False


def read_manifests(text: str, start: int = 0, line: int = 1) -> tuple[Manifest, ...]:
    """One for each document. Never raises; what cannot be read has a `fault`."""
    return ()


def invocations_of(text: str, manifest: Manifest, facts: Facts) -> tuple[tuple[Invocation, ...], tuple[str, ...]]:
    """The commands of its containers (`understand` makes launches of them), and notes of what was not understood.

    `text` is the whole text, in which the manifest's spans lie.
    """
    return (), ()
