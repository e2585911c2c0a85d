"""ResNet and DeepLabv3 with random weights, by TorchVision."""

from . import needs
from .work import Work


def settle(torch, model, images):
    """Has batch norms take the statistics of these images.

    Those that they begin with let the numbers of deep networks grow beyond half precision.
    """
    norms = [one for one in model.modules() if isinstance(one, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model.train()(images)
    for norm in norms:
        norm.momentum = 0.1
    return model


class Vision(Work):
    """Inference of batches of images."""

    settings = {"height": 224, "width": 224}
    imports = ("torch.profiler", "torchvision")

    def __init__(self, role, device):
        super().__init__(role, device)
        torch = self.torch
        models = needs("torchvision", "torchvision", "TorchVision").models
        model = self.on_device(lambda: self.make(models))
        size = (self.option("height", tiny=64), self.option("width", tiny=64))
        settle(torch, model, torch.randn(4, 3, *size, device=device.target))
        self.model = model.to(self.dtype).eval()
        self.images = torch.randn(role.batch, 3, *size, device=device.target).to(self.dtype)
        self.output = None

    def make(self, models):
        """The model, of the package `torchvision.models`."""
        raise NotImplementedError

    def launch(self):
        self.output = self.model(self.images)

    def outputs(self):
        return [self.output]


class ResNet50(Vision):
    """ResNet-50."""

    def make(self, models):
        return models.resnet50(weights=None)


class ResNet152(Vision):
    """ResNet-152."""

    def make(self, models):
        return models.resnet50(weights=None) if self.is_tiny else models.resnet152(weights=None)


class DeepLab(Vision):
    """DeepLabv3 over ResNet: the classes of each pixel of a frame, as for a blurred background."""

    settings = {"height": 720, "width": 1280, "backbone": ("resnet50", "resnet101", "mobilenet")}

    def make(self, models):
        kind = "mobilenet" if self.is_tiny else self.option("backbone")
        name = {"mobilenet": "deeplabv3_mobilenet_v3_large"}.get(kind, f"deeplabv3_{kind}")
        return getattr(models.segmentation, name)(weights=None, weights_backbone=None)

    def launch(self):
        self.output = self.model(self.images)["out"].argmax(1)
