"""The target models of the paper's study, and how their weights are kept."""

from fans.models._shared import Card, find_checkpoint, load, read_card, save
from fans.models.gcn import GCN
from fans.models.lenet import LeNet5, load_released
from fans.models.resnet import ResNet18

__all__ = ["GCN", "Card", "LeNet5", "ResNet18", "find_checkpoint", "load", "load_released", "read_card", "save"]
