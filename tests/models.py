"""Models of one table, and what tests of models share."""

from typing import Any

import numpy as np
import torch
from torch import nn

ROWS = np.random.default_rng(0).normal(size=(30, 2))
X = np.array([[0.5, -1.0], [1.5, 0.3], [-0.7, 0.2]])
WEIGHTS = np.array([[1.0, -2.0], [0.5, 0.5], [-1.0, 3.0]])
LOGITS = ROWS @ WEIGHTS.T + [0.1, 0.2, 0.3]
CLASSES = np.array(["ant", "bee", "cat"])[LOGITS.argmax(1)]


def linear(n_outputs: int) -> nn.Linear:
    layer = nn.Linear(2, n_outputs, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(WEIGHTS[:n_outputs]))
        layer.bias.copy_(torch.tensor([0.1, 0.2, 0.3][:n_outputs], dtype=torch.float64))
    return layer


def logits(rows: Any) -> Any:
    return np.asarray(rows) @ WEIGHTS.T + [0.1, 0.2, 0.3]
