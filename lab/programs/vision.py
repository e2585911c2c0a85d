"""Requests to TorchVision's ResNet-152 and DeepLabv3 in half precision."""

import common

torch = common.torch_of()
import torchvision  # noqa: E402

classify = torchvision.models.resnet152().cuda().half().eval()
segment = torchvision.models.segmentation.deeplabv3_resnet50(weights_backbone=None)
segment = segment.cuda().half().eval()
image = torch.randn(1, 3, 384, 384, device="cuda").half()
outputs = []


def request():
    outputs[:] = [classify(image), segment(image)["out"]]
    torch.cuda.synchronize()


torch.use_deterministic_algorithms(True, warn_only=True)
with torch.inference_mode():
    measured = common.times(request, 50)
common.report(common.digest([output.float().cpu() for output in outputs]), measured)
