"""One thread for torch: the tensors of tests are small, and threads waiting for each other cost more than they save."""

import torch

torch.set_num_threads(1)
