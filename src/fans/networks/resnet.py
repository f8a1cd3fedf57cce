"""ResNet18 in its form for small images: a 3x3 first convolution and no first pooling."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from fans.networks.base import Network, Normalise

_CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
_CIFAR_STD = (0.2470, 0.2435, 0.2616)


class InputBatch(nn.Module):
    """Two 3x3 convolutions and a shortcut; every activation is a module of its own."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1, self.relu1 = nn.BatchNorm2d(after), nn.ReLU()
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2, self.relu2 = nn.BatchNorm2d(after), nn.ReLU()
        self.shortcut = (
            nn.Identity()
            if stride == 1 and before == after
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return the block's features."""
        inner = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(features)))))
        result: Tensor = self.relu2(inner + self.shortcut(features))
        return result


class ResNet18(Network):
    """Four stages of two blocks, 11.2 million parameters; takes `(n, 3, height, width)` in [0, 1], made for 32x32."""

    name = "resnet18"
    layout: ClassVar[torch.memory_format] = torch.channels_last

    def __init__(self, n_classes: int = 10) -> None:
        super().__init__()
        self.normalise = Normalise(_CIFAR_MEAN, _CIFAR_STD)
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1, self.relu1 = nn.BatchNorm2d(64), nn.ReLU()
        widths = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        self.stages = nn.Sequential(*(nn.Sequential(InputBatch(b, a, s), InputBatch(a, a, 1)) for b, a, s in widths))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits `(n, n_classes)`."""
        features = self.stages(self.relu1(self.bn1(self.conv1(self.normalise(images)))))
        logits: Tensor = self.fc(torch.flatten(self.pool(features), 1))
        return logits
