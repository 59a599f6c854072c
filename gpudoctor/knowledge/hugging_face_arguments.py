"""What accelerate and transformers took out of the arguments that tutorials give them: since when, and what to write.

Read from the wheels of accelerate 0.1 to 1.6 and of transformers 3.5 to 5.23, of which none was run: the last release
that has an argument, the first without it, and what its own warning says to use. Where the next release that was read
is a later one, the release is the one that the warning names.
"""

from collections.abc import Mapping

from msgspec import Struct

Version = tuple[int, ...]


class LostArgument(Struct, frozen=True):
    """An argument that a class had once."""

    owner: str
    name: str
    gone: Version
    """The first release without it."""
    today: str
    """As code; what ends with = takes the very value that the old one had."""

    @property
    def package(self) -> str:
        return PACKAGES[self.owner]

    @property
    def since(self) -> str:
        return f"removed in {self.package} {'.'.join(map(str, self.gone))}"


PACKAGES: Mapping[str, str] = {
    "Accelerator": "accelerate",
    "TrainingArguments": "transformers",
    "Seq2SeqTrainingArguments": "transformers",
    "Trainer": "transformers",
    "Seq2SeqTrainer": "transformers",
}
_LOADER = "dataloader_config=DataLoaderConfiguration({}=...)"
_OF_TRAINING: tuple[tuple[str, Version, str], ...] = (
    ("evaluation_strategy", (4, 51), "eval_strategy="),
    ("sharded_ddp", (4, 35), "fsdp="),
    ("dispatch_batches", (4, 51), 'accelerator_config={"dispatch_batches": ...}'),
    ("split_batches", (4, 51), 'accelerator_config={"split_batches": ...}'),
    ("no_cuda", (5, 0), "use_cpu="),
    ("adafactor", (5, 0), 'optim="adafactor"'),
    ("torchdynamo", (5, 0), "torch_compile_backend="),
    ("per_gpu_train_batch_size", (5, 0), "per_device_train_batch_size="),
    ("per_gpu_eval_batch_size", (5, 0), "per_device_eval_batch_size="),
    ("push_to_hub_token", (5, 0), "hub_token="),
    ("push_to_hub_model_id", (5, 0), "hub_model_id="),
    ("include_inputs_for_metrics", (5, 0), 'include_for_metrics=["inputs"]'),
    ("fsdp_min_num_params", (5, 0), 'fsdp_config={"min_num_params": ...}'),
    ("fsdp_transformer_layer_cls_to_wrap", (5, 0), 'fsdp_config={"transformer_layer_cls_to_wrap": ...}'),
)
LOST: tuple[LostArgument, ...] = (
    LostArgument("Accelerator", "fp16", (0, 16), 'mixed_precision="fp16"'),
    LostArgument("Accelerator", "logging_dir", (0, 20), "project_dir="),
    *(
        LostArgument("Accelerator", name, (1, 0), _LOADER.format(name))
        for name in ("dispatch_batches", "even_batches", "use_seedable_sampler")
    ),
    *(
        LostArgument(owner, *each)
        for owner in ("TrainingArguments", "Seq2SeqTrainingArguments")
        for each in _OF_TRAINING
    ),
    LostArgument("Trainer", "tokenizer", (5, 0), "processing_class="),
    LostArgument("Seq2SeqTrainer", "tokenizer", (5, 0), "processing_class="),
)
_BY_NAME = {(argument.owner, argument.name): argument for argument in LOST}


def lost_argument(owner: str, name: str) -> LostArgument | None:
    """What is known of an argument of that class that is gone."""
    return _BY_NAME.get((owner, name))
