"""LeNet5 for 28x28 grey images."""

import torch
from torch import Tensor, nn

from fans.datasets.files import File, obtain
from fans.networks.base import Network, Normalise

RELEASED = File(
    "checkpoints/fans_lenet_fashionmnist.pt", "38a7794f9537341e363ca79bc92d0bf2a20bb4a073bc8e0aa93a55e1739c5bf0"
)
"""The LeNet that the FANS authors trained on Fashion-MNIST and explain in their code."""

RELEASED_HOME = "https://raw.githubusercontent.com/DMIRLAB-Group/FANS/HEAD/checkpoints/lenet_fashionmnist.pt"


class LeNet5(Network):
    """Two convolutions and three linear layers, 44,426 parameters; takes `(n, 1, 28, 28)` in [0, 1].

    Args:
        mean: what the first layer subtracts from every pixel.
        std: what it divides by afterwards.
    """

    name = "lenet5"

    def __init__(self, mean: float = 0.5, std: float = 0.5) -> None:
        super().__init__()
        self.normalise = Normalise((mean,), (std,))
        self.conv1, self.relu1, self.pool1 = nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)
        self.conv2, self.relu2, self.pool2 = nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)
        self.fc1, self.relu3 = nn.Linear(256, 120), nn.ReLU()
        self.fc2, self.relu4 = nn.Linear(120, 84), nn.ReLU()
        self.fc3 = nn.Linear(84, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits `(n, 10)`."""
        features = self.pool1(self.relu1(self.conv1(self.normalise(images))))
        features = self.pool2(self.relu2(self.conv2(features)))
        features = self.relu3(self.fc1(torch.flatten(features, 1)))
        logits: Tensor = self.fc3(self.relu4(self.fc2(features)))
        return logits


def load_released(*, normalise: bool = True, download: bool = False, home: str = RELEASED_HOME) -> LeNet5:
    """Return the FANS authors' LeNet5 for Fashion-MNIST, in evaluation mode.

    Args:
        normalise: whether it takes images in [0, 1], as ours do; without, images in [-1, 1], as in their code.
        download: whether to download the file if it is neither under `FANS_DATA` nor in the cache.
        home: where to download it from.
    """
    path = obtain(RELEASED, home, "download it with: fans.networks.load_released(download=True)", download=download)
    with torch.random.fork_rng(devices=[]):
        model = LeNet5() if normalise else LeNet5(mean=0.0, std=1.0)
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return model.eval()
