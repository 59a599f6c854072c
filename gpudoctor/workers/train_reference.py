"""`Reference`: the single-process run, in float32, on the batches that all ranks took together."""

from typing import Any, Dict, List, Tuple

RATE, MOMENTUM = 0.02, 0.9


def optimizer(torch: Any, parameters: Any) -> Any:
    """Not Adam: it divides by the gradient's size, and would hide a gradient that is too large by a factor."""
    return torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM)


class Reference:
    """Computed by every rank for itself, on its own device; it shares nothing with the run that is verified."""

    def __init__(self, torch: Any, seed: int, samples: Any, device: Any) -> None:
        import train_net

        self.torch = torch
        self.device = device
        self.samples = samples
        self.loss_of = train_net.loss_of
        self.model = train_net.seeded(seed).to(device)
        self.optimizer = optimizer(torch, self.model.parameters())
        self.names = [name for name, _ in self.model.named_parameters()]

    def parameters(self) -> Dict[str, Any]:
        return dict(self.model.named_parameters())

    def gradients(self, numbers: List[int]) -> Tuple[float, Dict[str, Any]]:
        """Loss and gradients of these samples, at the parameters as they are; takes no step."""
        inputs = self.samples.inputs[numbers].to(self.device)
        labels = self.samples.labels[numbers].to(self.device)
        with self.torch.enable_grad(), self.torch.autocast(self.device.type, enabled=False):
            loss = self.loss_of(self.model(inputs), labels)
            gradients_computed = self.torch.autograd.grad(loss, list(self.model.parameters()))
        return float(loss.detach()), dict(zip(self.names, gradients_computed))

    def step(self, gradients: Dict[str, Any]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.grad = gradients[name]
        self.optimizer.step()
