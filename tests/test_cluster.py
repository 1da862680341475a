"""Bench on a cluster of several nodes, of which one is lost; the nodes are processes of this machine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import pytest

from adaptivek.cli import main
from adaptivek.experiments.bench import Grid, bench
from adaptivek.experiments.executors import Settings, choose, train_unit
from adaptivek.experiments.store import Store

from .test_bench import everything

pytest.importorskip("ray")
pytest.importorskip("upath")
GRID = Grid(datasets=["digits"], noise_rates=[0.2, 0.4], methods=["vanilla", "adaptive-k"], seeds=1)
QUICK = {"warmup_epochs": 1, "batch_size": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that trains nothing, to which nodes are added."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


def test_a_node_is_lost_and_its_runs_are_done_on_the_other(cluster):
    nodes = [cluster.add_node(num_cpus=2), cluster.add_node(num_cpus=2)]
    specs, ticks, told, ticked = GRID.specs(**QUICK, epochs=12), [], [], []

    def tell(words: str) -> None:
        told.append(words)
        if words == "4 at once on 2 nodes":
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    settings = Settings("cpu", tick=ticks.append, tell=tell, address=cluster.address)
    for _ in bench(specs, "memory://lost", "ray", settings):
        ticked.append(sum(ticks))
    assert not nodes[1:]
    assert told[-1] == "1 at once on 1 node"
    assert ticked[0] > 12  # of the first result, and from runs that are not done
    assert sum(ticks) == 4 * 12
    results = Store("memory://lost").read_all()
    assert [(result.engine, result.failure) for result in results] == [("ray", "")] * 4
    expected = [dataclasses.replace(each, engine="ray") for spec in specs for each in train_unit((spec,), "cpu")]
    assert everything(results) == everything(expected)
    cluster.remove_node(nodes.pop())


def test_stacks_share_a_gpu(cluster):
    """A GPU that is a number only: the tasks, told to take what there is, train on the CPU."""
    node = cluster.add_node(num_cpus=8, num_gpus=1)
    told = []
    settings = Settings(tell=told.append, address=cluster.address, gpu_share=0.5)
    results = list(bench(GRID.specs(**QUICK, epochs=4), "memory://shared", "ray", settings))
    assert [result.failure for result in results] == [""] * 4
    assert max(told) == "2 at once on 1 node"
    # two stacks of two: the seconds are those of the stack
    assert len({result.seconds for result in results}) == 2
    cluster.remove_node(node)


def test_the_command_takes_an_address_and_a_place_anywhere(cluster, capsys, monkeypatch):
    node = cluster.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    options = ["--methods", "vanilla", "--noise-rates", "0.2", "--seeds", "1", "--epochs", "2", "--batch-size", "100"]
    main(["bench", "--out", "memory://command", "--engine", "ray", "--device", "cpu", *options])
    assert "written to memory://command/report.html" in capsys.readouterr().out
    main(["report", "memory://command", "--paper"])
    assert "written to memory://command/paper.html" in capsys.readouterr().out
    cluster.remove_node(node)


def test_what_is_no_cluster_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    wrong = Settings("cpu", address="nowhere")
    with pytest.raises(ValueError, match=r"bench: address must be that of a Ray cluster that is running, .* 'nowhere'"):
        list(bench(GRID.specs(epochs=1), tmp_path, "ray", wrong))
    assert not os.listdir(tmp_path / "runs")
    with pytest.raises(ValueError, match=r"address and gpu_share are for the engine ray, .* the engine auto"):
        choose("auto", [], wrong)
    with pytest.raises(ValueError, match=r"gpu_share must be a number in \[0.01, 1\], got 2"):
        Settings("cpu", gpu_share=2)
