from gpudoctor.cause import PROVED, Cause, Fix, Symptom

CAUSE = Cause(
    id="checkpoint-mismatch",
    title="a checkpoint does not fit the model",
    stages=("rendezvous", "training"),
    kind="checkpoint",
    blame="program",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "The state that is loaded has other names or other shapes than the model: another configuration, another "
        "vocabulary, a wrapper's prefix, or another sharding. The rank ends by an exception."
    ),
    like=("program-error",),
    fix=Fix(
        "Build the model with the configuration that the checkpoint was written with; take a wrapper's prefix "
        "(module., _orig_mod.) off the names."
    ),
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
    ),
    source="torch nn/modules/module.py (load_state_dict)",
)
