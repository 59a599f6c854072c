"""What somebody said that a machine has: `--expect 8xH100`, `--expect gpus=8`, `--expect cpu`."""

import re
from typing import Literal

from gpudoctor.named import ModelName
from gpudoctor.snapshot.section import Section

FORMS = "8xH100, gpus=8, 8 or cpu"
MOST = 1024


class Expectation(Section, frozen=True):
    """`count` GPUs, of any model or of this one; or none at all."""

    kind: Literal["gpus", "cpu"]
    count: int = 0
    model: ModelName = ""

    @classmethod
    def of(cls, text: str) -> "Expectation":
        """What `--expect` was given. Raises `ValueError` for anything else."""
        if text == "cpu":
            return cls("cpu")
        match = re.fullmatch(r"(?:gpus=)?([1-9][0-9]{0,3})|([1-9][0-9]{0,3})x([A-Za-z][A-Za-z0-9 ._-]{0,60})", text)
        count = int(match[1] or match[2]) if match is not None else 0
        if match is None or count > MOST:
            raise ValueError(f"{text!r} is none of {FORMS}")
        return cls("gpus", count, match[3] or "")

    def said(self) -> str:
        """As in a sentence: "8 H100", "8 GPUs"."""
        return f"{self.count} {self.model or ('GPU' if self.count == 1 else 'GPUs')}" if self.kind == "gpus" else "CPU"

    def is_model(self, name: str) -> bool:
        """Whether a GPU's name has every word of the model: "A100-80GB" in "NVIDIA A100-SXM4-80GB", not "A10"."""
        words = _words(name)
        # People write RTX4090 for RTX 4090.
        joined = {"".join(words[at : at + 2]) for at in range(len(words))} | set(words)
        return all(word in joined for word in _words(self.model))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.casefold())
