from gpudoctor.cause import LIKELY, PROVED, Cause, Fix, Symptom

CAUSE = Cause(
    id="checkpoint-mismatch",
    title="a checkpoint does not fit the model",
    stages=("rendezvous", "training"),
    kind="checkpoint",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "The state that is loaded has other names or other shapes than the model: another configuration, another "
        "vocabulary, a wrapper's prefix, or another sharding. Loading ends with an exception."
    ),
    like=("program-error",),
    fix=Fix(
        "Build the model with the configuration (classes, vocabulary, layers) that the checkpoint was written with, by "
        "code of the same release: the newest of both, where weights were fetched. To go on with another head take the "
        "entries whose shape differs out of the state before it is loaded (transformers: ignore_mismatched_sizes=True; "
        "strict=False alone does not help). Take a wrapper's prefix (module., _orig_mod.) off the names."
    ),
    variants={
        "wrapped-model": (
            "Load it into the model that is inside the wrapper, `model.module.load_state_dict(state)`, or before the "
            "model is wrapped. Of a file that was saved with a wrapper, `gpudoctor checkpoint FILE --fix CLEAN.pt` "
            "writes a copy without."
        ),
        "wrapped-file": (
            "Take module. off the names while loading, `model.load_state_dict(dict((name.removeprefix('module.'), "
            "tensor) for name, tensor in state.items()))`, or write a copy without it: `gpudoctor checkpoint FILE "
            "--fix CLEAN.pt`."
        ),
        "more-in-file": (
            "The file has more than the model asks for: {names}. Where these are no part of what is used now "
            "(weights of a loss, a head, a teacher, position_ids of an older transformers), load with strict=False "
            "(load_state_dict, load_from_checkpoint) or take them out of the state; else build the model with the "
            "settings that it was saved with."
        ),
        "prefix": (
            "Take {prefix} off the names of both, or load before the model is wrapped. `gpudoctor checkpoint FILE "
            "--fix CLEAN.pt` writes a copy with plain names."
        ),
    },
    confirm=("gpudoctor checkpoint lists the names and shapes of the file: compare them with model.state_dict()."),
    symptoms=(
        Symptom(
            "state-dict-mismatch",
            pattern=r"Error\(s\) in loading state_dict for (?P<model>[\w.]{1,200})",
            cause="checkpoint-mismatch",
            confidence=PROVED,
            seen="the checkpoint does not fit {model}: names or shapes differ",
            source="torch nn/modules/module.py (load_state_dict)",
            sample="RuntimeError: Error(s) in loading state_dict for DistributedDataParallel:",
            counter="loading state_dict for DistributedDataParallel",
        ),
        Symptom(
            "state-dict-keys",
            pattern=r"(?:Missing|Unexpected) key\(s\) in state_dict: \"|"
            r"unexpected key \"[^\"\n]{1,300}\" in state_dict|missing keys in state_dict: \"",
            cause="checkpoint-mismatch",
            confidence=LIKELY,
            seen="the checkpoint does not fit the model: names differ",
            source="torch nn/modules/module.py (load_state_dict); the last two up to torch 0.3",
            sample=(
                "KeyError: 'unexpected key \"module.fc.weight\" in state_dict'",
                'Missing key(s) in state_dict: "fc.weight", "fc.bias". ',
                'Unexpected key(s) in state_dict: "module.fc.weight". ',
            ),
            counter="Missing key(s) in state_dict of the optimizer",
        ),
    ),
    source="torch nn/modules/module.py (load_state_dict)",
)
