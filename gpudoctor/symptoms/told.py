"""What scripts print of each rank: sizes of tensors, numbers of batches. Compared over ranks they tell who differs."""

from gpudoctor.symptom import Symptom

RANK = r"\b(?:[Rr]ank|RANK)[ :=#\[(]{0,3}(?P<rank>\d{1,6})\b"
OPERATIONS = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|gather|scatter|reduce|send|recv"

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "tensor-size-told",
        pattern=RANK + rf"(?=(?:[^\n]{{0,120}}?\b(?i:(?P<operation>{OPERATIONS})))?)"
        r"[^\n]{0,160}?torch\.Size\(\[(?P<size>[\d, ]{0,80})\]\)",
        role="context",
        seen="rank {rank} has a tensor of shape [{size}]",
        source="print() of a tensor's size",
        sample=(
            "rank=6 before all_gather: shape torch.Size([512, 64])",
            "[Rank 6] grads torch.Size([1048576]) allreduce starts",
        ),
        counter="logits torch.Size([512, 64])",
    ),
    Symptom(
        "batches-told",
        pattern=(
            RANK
            + r"[^\n]{0,60}?(?<![\d.])(?P<batches>\d{1,9}) (?:batches|steps per epoch|steps in (?:the|this) epoch)\b",
            RANK + r"[^\n]{0,60}?\blen\((?:[\w.]{0,20}loader|[\w.]{0,20}dl)\) ?[:=]{1,2} ?(?P<batches>\d{1,9})\b",
        ),
        role="context",
        seen="rank {rank} has {batches} batches",
        source="print() of many scripts",
        sample=("[rank 6] 1204 batches", "rank 6: len(train_loader) = 1204"),
        counter="epoch 3: 1204 batches",
    ),
)
