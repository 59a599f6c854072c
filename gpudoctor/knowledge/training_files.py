"""What axolotl, LLaMA-Factory and transformers refuse in the options that they are told, as their sources check it.

axolotl 0.13, src/axolotl/utils/schemas/validation.py and peft.py; LLaMA-Factory 0.9.5, hparams/parser.py; transformers
4.57 and 5.24, training_args.py. A condition is a name that is on, `!name` for one that is off or not told,
`name=a|b` and `name!=a` for what it is.
"""

from msgspec import Struct


class RefusedOptions(Struct, frozen=True):
    program: str
    conditions: str
    """Divided by blanks; all of them hold. The first that is told is where it is said."""
    says: str
    """The program's own words, as far as they are fixed."""
    fix: str


def _rows(program: str, *rows: tuple[str, str, str]) -> tuple[RefusedOptions, ...]:
    return tuple(RefusedOptions(program, *row) for row in rows)


REFUSED = (
    *_rows(
        "axolotl",
        ("deepspeed fsdp", "deepspeed and fsdp cannot be used together.", "Keep one of the two."),
        (
            "gradient_accumulation_steps batch_size",
            "set only one of gradient_accumulation_steps or batch_size",
            "Take batch_size out.",
        ),
        ("load_in_8bit adapter=qlora", "Can't load qlora in 8bit", "Write load_in_4bit: true and no load_in_8bit."),
        (
            "adapter=qlora !load_in_4bit !load_in_8bit !peft !merge_lora",
            "Require cfg.load_in_4bit to be True for qlora",
            "Write load_in_4bit: true, or adapter: lora.",
        ),
        (
            "load_in_8bit !adapter !inference",
            "load_in_8bit and load_in_4bit are not supported without setting an adapter for training.",
            "Write adapter: lora, or take load_in_8bit out.",
        ),
        (
            "load_in_4bit !adapter !inference",
            "load_in_8bit and load_in_4bit are not supported without setting an adapter for training.",
            "Write adapter: qlora, or take load_in_4bit out.",
        ),
        ("sample_packing rl", "`sample_packing: true` does not work with RLHF training", "Turn sample_packing off."),
        ("deepspeed optimizer=muon", "Muon optimizer is currently incompatible with DeepSpeed", "Take another one."),
        (
            "test_datasets val_set_size",
            "non-zero val_set_size should not be used with test_datasets configuration",
            "Take val_set_size out.",
        ),
        ("warmup_steps warmup_ratio", "warmup_steps and warmup_ratio are mutually exclusive", "Keep one of them."),
        ("saves_per_epoch save_steps", "save_steps and saves_per_epoch are mutually exclusive", "Keep one of them."),
        ("evals_per_epoch eval_steps", "eval_steps and evals_per_epoch are mutually exclusive", "Keep one of them."),
        ("pretraining_dataset !max_steps", "max_steps must be set when using iterable pretraining_dataset", "Set it."),
        ("flash_attention sdp_attention", "Only one of the kinds of attention must be set", "Keep one of them."),
        ("flash_attention xformers_attention", "Only one of the kinds of attention must be set", "Keep one of them."),
    ),
    *_rows(
        "llamafactory",
        (
            "quantization_bit finetuning_type=full|freeze",
            "Quantization is only compatible with the LoRA or OFT method.",
            "Write finetuning_type: lora, or take quantization_bit out.",
        ),
        (
            "adapter_name_or_path finetuning_type=full|freeze|oft",
            "Adapter is only valid for the LoRA method.",
            "Write finetuning_type: lora.",
        ),
        ("predict_with_generate stage=pt|rm|ppo|dpo|kto", "`predict_with_generate` cannot be set as True except SFT.",
         "Take predict_with_generate out."),
        ("streaming !max_steps", "specify `max_steps` in streaming mode.", "Set max_steps."),
        ("do_train !dataset", "specify dataset for training.", "Write dataset: NAME."),
        (
            "do_eval !eval_dataset !val_size",
            "eval_dataset must be provided or val_size >1e-6",
            "Write eval_dataset or val_size.",
        ),
        ("load_best_model_at_end stage=rm|ppo", "RM and PPO stages do not support `load_best_model_at_end`.",
         "Take load_best_model_at_end out."),
    ),
    *_rows(
        "transformers",
        (
            "load_best_model_at_end !eval_strategy !evaluation_strategy !do_eval !eval_steps",
            "--load_best_model_at_end requires the save and eval strategy to match",
            "Write the same eval_strategy and save_strategy.",
        ),
    ),
)  # fmt: skip
