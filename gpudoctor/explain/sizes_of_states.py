"""What the sizes tell that load_state_dict holds against each other: parameters that ZeRO-3 has parted, another
vocabulary, another head.

torch writes a line for each parameter (nn/modules/module.py, _load_from_state_dict).
"""

from collections.abc import Iterable
from typing import NamedTuple

from gpudoctor.lazy import lazy_re

MISMATCH = lazy_re(
    r"size mismatch for (?P<name>[\w.]{1,200}): copying a param with shape torch\.Size\(\[(?P<there>[\d, ]{0,60})\]\) "
    r"from checkpoint, the shape in current model is torch\.Size\(\[(?P<here>[\d, ]{0,60})\]\)"
)
OF_VOCABULARY = lazy_re(
    r"(?:embed_tokens|tok_embeddings|word_embeddings|\bwte|lm_head|embed_out|\bshared|embed_in|decoder\.bias)\b"
)
"""How language models call what has a row for each token (transformers models/*)."""
OF_HEAD = lazy_re(
    r"(?:^|\.)(?:fc|head|heads?\.head|classifier(?:\.\d|\.out_proj)?|score|last_layer|logits)\.(?:weight|bias)$"
)
"""How models call the layer that has a row for each class (torchvision, timm, transformers)."""
PARTED = "0"
"""Of a parameter of which this rank holds nothing (deepspeed/runtime/zero/partition_parameters.py)."""


class Sizes(NamedTuple):
    name: str
    there: tuple[str, ...]
    """In the file."""
    here: tuple[str, ...]
    """In the model."""

    @property
    def rows_differ(self) -> bool:
        """And nothing else."""
        return len(self.there) == len(self.here) and self.there[1:] == self.here[1:]


def of_sizes(texts: Iterable[str]) -> str:
    """What is to be done; empty where the sizes tell of nothing known."""
    found = [
        Sizes(match["name"], tuple(match["there"].split(", ")), tuple(match["here"].split(", ")))
        for text in texts
        for match in MISMATCH.finditer(text)
    ]
    if not found:
        return ""
    first = found[0]
    if any(each.there == (PARTED,) for each in found):
        return (
            "Weights in the file are empty (torch.Size([0])): it was saved from a model that ZeRO-3 had parted, "
            "without gathering. Make whole weights of that checkpoint by the zero_to_fp32.py that lies in its folder, "
            "and load these; for later ones set stage3_gather_16bit_weights_on_model_save (accelerate: "
            "zero3_save_16bit_model) to true."
        )
    if any(each.here == (PARTED,) for each in found):
        return (
            "The model's parameters are empty on this rank (torch.Size([0])) because ZeRO-3 has parted them: load the "
            "weights before it does (from_pretrained gathers by itself; no plain load_state_dict under zero.Init), or "
            "inside of deepspeed.zero.GatheredParameters(list(model.parameters()), modifier_rank=0)."
        )
    if not all(each.rows_differ for each in found):
        return ""
    there, here = first.there[0], first.here[0]
    if all(OF_VOCABULARY.search(each.name) for each in found):
        return (
            f"The file has {there} rows of vocabulary and the model {here}: model.resize_token_embeddings({there}) "
            "before these weights or this adapter are loaded, with the tokenizer that was saved beside them; or take "
            "the base model that they were trained on."
        )
    if all(OF_HEAD.search(each.name) for each in found):
        names = " and ".join(dict.fromkeys(each.name for each in found))
        return (
            f"{names} has {there} outputs in the file and {here} in the model: to use it as it is build the model for "
            f"{there} classes; to train {here} classes from it take these entries out of the state before it is loaded "
            "with strict=False (transformers: ignore_mismatched_sizes=True), or load it first and put a new layer in "
            "their place."
        )
    return ""


__all__ = ["of_sizes"]
