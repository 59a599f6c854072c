"""Of `checkpoint`."""

from gpudoctor.command import command
from gpudoctor.said.one import Meaning, said_by

_said = said_by("checkpoint")

_SAVE = (
    command("from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict"),
    command("options = StateDictOptions(full_state_dict=True, cpu_offload=True)"),
    command("state = get_model_state_dict(model, options=options)"),
    command('if rank == 0: torch.save(state, "model.pt")'),
)
_CLEAN = command("gpudoctor checkpoint {:path} --fix {:path}", "FILE", "model-clean.pt")
CHECKPOINT: dict[str, Meaning] = {
    "damaged-record": _said(
        "A tensor of the file fails its checksum.",
        "Bytes changed since it was saved. torch.load does not look, and trains on with them.",
        "Copy the file again from where it was saved, and compare both; else use an older checkpoint.",
    ),
    "torch-load-refuses": _said(
        "The pickle in the file names more than tensors.",
        "From torch 2.6 on, torch.load ends with an error; with weights_only=False it runs whatever is named.",
        "Write the tensors alone to a clean file; or load it with weights_only=False where you know who made it.",
        _CLEAN,
    ),
    "no-state-dict": _said(
        "The file holds no tensors under names.",
        "model.load_state_dict has nothing to take from it.",
        "Look in which file the model was saved.",
    ),
    "one-rank-of-several": _said(
        "Tensors of the file are one rank's part.",
        "The other parts are in the files of the other ranks; this one alone is no model.",
        "Save the whole model on rank 0, with the ranks of the run still there.",
        *_SAVE,
    ),
    "distributed-tensors": _said(
        "Tensors of the file are DTensors; all of their numbers are in it.",
        "A plain model does not take them: load_state_dict mixes DTensor and Tensor and raises.",
        "Write plain tensors to a clean file.",
        _CLEAN,
    ),
    "flat-parameters": _said(
        "Tensors of the file are flat parameters of FSDP.",
        "Many parameters lie in one vector, without names and shapes: only the same FSDP model on as many ranks "
        "can take them.",
        "Load it there, and save the whole model.",
        *_SAVE,
    ),
    "without-numbers": _said(
        "The model was saved from the meta device.",
        "It had not been given its weights yet: the file holds shapes only.",
        "Save it after it was materialised (to_empty and loading, or without device='meta').",
    ),
    "empty-tensors": _said(
        "Most tensors of the file have no elements.",
        "The weights are elsewhere: DeepSpeed's ZeRO-3 and FSDP save such files when a rank saves its model alone.",
        "Of ZeRO-3, run DeepSpeed's own script in the checkpoint's folder; of FSDP, save the gathered model.",
        command("python zero_to_fp32.py . fp32"),
    ),
    "values-not-finite": _said(
        "Weights of the file are NaN or infinite.",
        "The training had diverged when it was saved; whatever is computed from it is NaN too.",
        "Go back to an older checkpoint, and look for the step at which the loss became NaN.",
    ),
    "whole-object": _said(
        "The model itself was saved, and not its state dict.",
        "It loads where the same code lies in the same module only, with weights_only=False.",
        "Write its state dict to a file of its own.",
        _CLEAN,
    ),
    "names-collide": _said(
        "Without a wrapper's prefix, two tensors would have the same name.",
        "The file holds a model with and without its wrapper, or two models in one; no prefix is taken off.",
        "Take the one that is wanted by its prefix.",
    ),
    "storage-mostly-unused": _said(
        "Most of what is stored belongs to no tensor: they are views of larger ones.",
        "torch.save writes the whole storage that a view looks into.",
        "A clean copy holds what is looked at; when saving, give it tensor.clone().",
        _CLEAN,
    ),
    "wrapper-prefix": _said(
        "Names carry the prefix of a wrapper, as module. or _orig_mod.",
        "load_state_dict of a plain model misses these keys; with strict=False it loads nothing and says nothing.",
        "Take the prefix off while loading, or write a clean copy.",
        _CLEAN,
    ),
    "keys-differ": _said(
        "The names or shapes in the file are not those of the model.",
        "load_state_dict raises; with strict=False the missing ones keep their random weights.",
        "Build the model that was saved, or load with strict=False where that is meant.",
    ),
}
