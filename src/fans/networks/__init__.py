"""The target models of the paper's study, and how their weights are kept."""

from fans.networks.base import Card, find_checkpoint, load, read_card, save
from fans.networks.gcn import GCN
from fans.networks.lenet import LeNet5, load_released
from fans.networks.resnet import ResNet18

__all__ = ["GCN", "Card", "LeNet5", "ResNet18", "find_checkpoint", "load", "load_released", "read_card", "save"]
