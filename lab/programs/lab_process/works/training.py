"""Training of ResNet-50 and BERT-large; a request is a step, and the losses are compared."""

import contextlib

from . import bert, needs
from .work import Work


class Training(Work):
    """Steps of an optimizer. A phase begins with the first weights, and its first losses count."""

    settings = {}
    has_gradients = True
    needs_determinism = True
    digested = 4

    def __init__(self, role, device):
        super().__init__(role, device)
        torch = self.torch
        self.model = self.make().train()
        self.optimizer = self.make_optimizer()
        self.losses = torch.zeros(self.digested + 1, device=device.target)
        self.steps = torch.zeros(1, dtype=torch.int64, device=device.target)
        self.first = [one.detach().clone() for one in self.state()]

    def make(self):
        """The model."""
        raise NotImplementedError

    def make_optimizer(self):
        """What updates the weights."""
        raise NotImplementedError

    def loss(self):
        """What is to become smaller."""
        raise NotImplementedError

    def state(self):
        """All weights and statistics."""
        return [*self.model.parameters(), *self.model.buffers()]

    def mixed(self):
        """Half precision where the model allows it, unless all is to be FP32."""
        if self.role.dtype == "fp32":
            return contextlib.nullcontext()
        return self.torch.autocast(self.device.target.type, dtype=self.dtype)

    def begin(self):
        torch = self.torch
        with torch.no_grad():
            for now, first in zip(self.state(), self.first):
                now.copy_(first)
            for state in self.optimizer.state.values():
                for value in state.values():
                    if torch.is_tensor(value):
                        value.zero_()
            self.losses.zero_()
            self.steps.zero_()

    def before_capture(self):
        # The graph's gradients are to be the graph's own memory.
        self.optimizer.zero_grad(set_to_none=True)

    def launch(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.mixed():
            loss = self.loss()
        loss.backward()
        self.optimizer.step()
        with self.torch.no_grad():
            # By the device's own count, so that a graph keeps each loss where it belongs.
            at = self.steps.clamp(max=self.digested)
            self.losses.index_copy_(0, at, loss.detach().float().view(1))
            self.steps.add_(1)

    def outputs(self):
        return [self.losses[:self.digested]]


class ResNetTraining(Training):
    """ResNet-50 by SGD with momentum."""

    settings = {"size": 224}
    imports = ("torch.profiler", "torchvision")

    def make(self):
        torch, models = self.torch, needs("torchvision", "torchvision", "TorchVision").models
        size = self.option("size", tiny=32)
        make = models.resnet18 if self.is_tiny else models.resnet50
        model = self.on_device(lambda: make(weights=None))
        target = self.device.target
        self.images = torch.randn(self.role.batch, 3, size, size, device=target)
        self.labels = torch.randint(0, 1000, (self.role.batch,), device=target)
        return model

    def make_optimizer(self):
        return self.torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def loss(self):
        return self.torch.nn.functional.cross_entropy(self.model(self.images), self.labels)


class BertLargeTraining(Training):
    """BERT-large by AdamW."""

    settings = {"tokens": 384}
    imports = ("torch.profiler", "transformers.models.bert.modeling_bert")

    def make(self):
        more = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        model = bert.model_of(self, bert.LARGE, **more)
        shape = (self.role.batch, self.option("tokens", tiny=16))
        self.tokens = self.torch.randint(0, 30000, shape, device=self.device.target)
        return model

    def make_optimizer(self):
        # Only so are the steps counted on the device, as a graph needs it.
        on_device = self.device.has_graphs
        return self.torch.optim.AdamW(self.model.parameters(), lr=1e-5, capturable=on_device)

    def loss(self):
        return self.model(self.tokens).last_hidden_state.float().square().mean()
