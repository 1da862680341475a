"""Networks: the published one is as published, and all can be trained."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from adaptivek.networks import MODELS, make_model


def test_notebook_network_is_the_published_one():
    model = make_model("notebook-cnn", 1, 10)
    assert [tuple(p.shape) for p in model.parameters()] == [
        (15, 1, 5, 5), (15,), (20, 15, 5, 5), (20,), (500, 320), (500,), (10, 500), (10,),
    ]  # fmt: skip
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


@pytest.mark.parametrize("name", MODELS)
def test_networks_give_logits_and_gradients(name):
    inputs, x = {
        "notebook-cnn": (1, torch.randn(4, 1, 28, 28)),
        "digits-cnn": (1, torch.randn(4, 1, 8, 8)),
        "resnet9": (3, torch.randn(4, 3, 32, 32)),
        "resnet18": (3, torch.randn(4, 3, 32, 32)),
    }.get(name, (50, torch.randint(1, 50, (4, 9))))  # texts
    model = make_model(name, inputs, 7)
    F.cross_entropy(model(x), torch.arange(4)).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("name", ["resnet9", "resnet18"])
def test_a_large_network_is_compiled_as_one_graph(name):
    model, graphs = make_model(name, 3, 10), []

    def backend(graph, inputs):
        graphs.append(sum(node.target is torch.conv2d for node in graph.graph.nodes))
        return graph.forward

    torch.compiler.reset()
    model.compile(backend=backend)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(model(x), model.forward(x))
    assert graphs == [sum(isinstance(module, nn.Conv2d) for module in model.modules())]
