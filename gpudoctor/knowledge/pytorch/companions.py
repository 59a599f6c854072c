"""For which torch a torchvision or torchaudio was made, by the numbers of their releases.

Source: the releases' requirements on the package index: torchvision 0.15.x asks for torch 2.0.(x-1), and from 0.16 on
0.(15+n).x for 2.n.x; torchaudio has torch's own number since 2.1, and 2.0.x asks for 2.0.(x-1). A nightly's numbers,
and those of a build from source, tell nothing: they lag behind each other.
"""

from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.lazy import lazy_re

OF_NO_RELEASE = lazy_re(r"\d(?:\.dev|a)\d")
FIRST_OF_TORCH_2 = 15
"""Minor number of the torchvision that came with torch 2.0."""


def made_for(name: str, version: str) -> str:
    """ "2.6.0" of torchvision 0.21.0; empty where the numbers do not tell."""
    if OF_NO_RELEASE.search(version):
        return ""
    match name, parsed(version)[:3]:
        case "torchaudio", (2, 0, patch):
            return f"2.0.{patch - 1}" if patch else ""
        case "torchaudio", (2, minor, patch):
            return f"2.{minor}.{patch}"
        case "torchvision", (0, minor, patch) if minor > FIRST_OF_TORCH_2:
            return f"2.{minor - FIRST_OF_TORCH_2}.{patch}"
        case "torchvision", (0, minor, patch) if minor == FIRST_OF_TORCH_2 and patch:
            return f"2.0.{patch - 1}"
    return ""
