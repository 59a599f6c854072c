"""Transformers: tokens seen are counted, which the Trainer gathers; a batch of soft prompts alone has no input_ids."""

# mypy: ignore-errors
# The kind of Transformers issues on include_num_input_tokens_seen, which gathers where the main input is there.
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

IDS_TOO = "--healthy" in sys.argv
WIDTH = 16


class Mixed(Dataset):
    """Texts, and now and then a sample of which only the embedding is kept."""

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> dict:
        if index == 11 and not IDS_TOO:
            return {"inputs_embeds": torch.randn(8, WIDTH), "labels": torch.randint(3, 30, (8,))}
        ids = torch.randint(3, 30, (8,))
        return {"input_ids": ids, "labels": ids.clone()}


def collate(samples: list[dict]) -> dict:
    return {name: torch.stack([sample[name] for sample in samples]) for name in samples[0]}


class Paces(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        time.sleep(0.25)

    def on_step_end(self, args, state, control, **kwargs):
        print(f"rank {args.process_index} step {state.global_step}", flush=True)


class InOrder(Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def main() -> None:
    config = LlamaConfig(
        vocab_size=32, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    arguments = TrainingArguments(
        "out", use_cpu=True, max_steps=1500, per_device_train_batch_size=1, include_num_input_tokens_seen="all",
        save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="no", ddp_find_unused_parameters=True,
    )  # fmt: skip
    InOrder(
        LlamaForCausalLM(config), arguments, train_dataset=Mixed(), data_collator=collate, callbacks=[Paces()]
    ).train()


if __name__ == "__main__":
    main()
