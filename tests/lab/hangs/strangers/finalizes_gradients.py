"""Where the reduction of gradients is left out in a step, one device is told to do it all the same (Neuron_SP issue
197)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist

TIERS = {"h100": {"force_ar": True}, "a6000": {"force_ar": False}}


class DesLocEngine:
    def __init__(self, device: str) -> None:
        self.tier = TIERS[device]
        self.Kx = 4
        self.grads = [torch.ones(8), torch.ones(4)]

    def finalize_model_grads(self, step: int) -> None:
        skip = step > 2 and step % self.Kx != 0
        if skip and not self.tier["force_ar"]:
            return
        for grad in self.grads:
            dist.all_reduce(grad)

    def clip_grad_norm(self) -> float:
        norm = torch.stack([grad.norm() for grad in self.grads]).norm().reshape(1)
        norms = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(norms, norm)
        return float(torch.stack(norms).max())

    def train_step(self, step: int) -> float:
        time.sleep(0.2)
        self.finalize_model_grads(step)
        return self.clip_grad_norm()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    engine = DesLocEngine(["h100", "a6000", "a6000"][rank])
    for step in range(1000):
        gnorm = engine.train_step(step)
        print(f"rank {rank} step {step} {gnorm:.2f}", flush=True)


if __name__ == "__main__":
    main()
