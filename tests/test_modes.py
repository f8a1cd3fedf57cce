"""A module held while it is asked: restored by the last who needs it, part by part, whatever happens."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from fans.modes import asking, evaluating, global_draws, only_here


def module() -> nn.Sequential:
    made = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Sequential(nn.Dropout(), nn.Linear(2, 1)))
    made[1].eval()  # frozen by its owner
    made[0].bias.requires_grad_(False)
    return made


def state(made: nn.Module) -> list[bool]:
    return [part.training for part in made.modules()] + [p.requires_grad for p in made.parameters()]


def test_the_last_who_needs_it_restores_it():
    made = module()
    before = state(made)
    first, second = asking(made), evaluating(made)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(part.training for part in made.modules())
    assert [p.requires_grad for p in made.parameters()] == before[6:]
    second.__exit__(None, None, None)
    assert state(made) == before


def test_modules_that_share_parts_leave_each_other_alone():
    made = module()
    wrapped, before = nn.Sequential(made, nn.Softmax(1)), state(made)
    first, second = asking(made), asking(wrapped)
    with ThreadPoolExecutor(1) as another:  # whether torch follows gradients belongs to a thread
        another.submit(first.__enter__).result()
        second.__enter__()
        another.submit(first.__exit__, None, None, None).result()
    assert not any(part.training for part in wrapped.modules())
    assert not any(p.requires_grad for p in wrapped.parameters())
    second.__exit__(None, None, None)
    assert (state(made), wrapped.training) == (before, True)


def test_an_error_restores_it():
    made = module()
    before = state(made)
    with pytest.raises(ZeroDivisionError), asking(made):
        raise ZeroDivisionError
    assert state(made) == before


def test_many_threads_find_it_in_evaluation_mode():
    made = module()
    before, start = state(made), threading.Barrier(8)

    def work(_: int) -> bool:
        start.wait()
        good = True
        for _ in range(200):
            with asking(made):
                good &= not any(part.training for part in made.modules()) and not made[0].weight.requires_grad
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert state(made) == before


def test_what_is_no_module_is_left_as_it_is():
    with torch.inference_mode(), asking(len), evaluating(len):
        assert not torch.is_inference_mode_enabled()


def test_a_hook_hears_its_own_thread_alone():
    heard = list[int]()
    made = nn.Identity()
    handle = made.register_forward_hook(only_here(lambda *_: heard.append(threading.get_ident())))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(made, torch.ones(1)).result()
    assert heard == []
    made(torch.ones(1))
    assert heard == [threading.get_ident()]
    handle.remove()


def test_global_draws_leave_the_generator_as_it_was():
    before = torch.random.get_rng_state()
    with global_draws(3):
        found = torch.rand(2)
    assert torch.equal(torch.random.get_rng_state(), before)
    with global_draws(3):
        assert torch.equal(torch.rand(2), found)
