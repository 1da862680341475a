"""Bench on a cluster of several nodes, of which one is lost; the nodes are processes of this machine."""

from __future__ import annotations

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
GRID = Grid(datasets=["digits"], noise_rates=[0.2, 0.4], methods=["vanilla", "adaptive-k"], seeds=1)
QUICK = {"warmup_epochs": 1, "batch_size": 100}


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that trains nothing, to which nodes are added."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


def test_a_node_is_lost_then_stacks_share_the_gpu_of_the_other(cluster, capsys, monkeypatch, tmp_path):
    """One test, since a cluster takes its time to come up. The GPUs are numbers only: told to take what there is,
    tasks train on the CPU."""
    nodes = [cluster.add_node(num_cpus=2, num_gpus=1), cluster.add_node(num_cpus=2, num_gpus=1)]
    specs, ticks, told, results = GRID.specs(**QUICK, epochs=16), [], [], []

    def tick(epochs: int) -> None:
        ticks.append(epochs)
        # heard from runs that are not done, on both nodes
        if len(nodes) == 2 and told[-1:] == ["4 at once on 2 nodes"] and sum(ticks) > 16 * len(results):
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    settings = Settings("cpu", tick=tick, tell=told.append, address=cluster.address)
    for result in bench(specs, tmp_path / "lost", "ray", settings):
        results.append(result)
    assert len(nodes) == 1
    assert told[-2] in ("1 at once on 1 node", "2 at once on 1 node")
    assert told[-1] == ""
    assert sum(ticks) == 4 * 16  # what was lost is taken back
    assert {(result.engine, result.failure) for result in results} == {("ray", "")}
    expected = everything(each for spec in specs for each in train_unit((spec,), "cpu"))
    assert everything(Store(tmp_path / "lost").read_all()) == expected

    cluster.wait_for_nodes(60)  # until the lost one is known to be lost
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    told.clear()
    specs = GRID.specs(**QUICK, epochs=4)
    results = list(bench(specs, tmp_path / "shared", "ray", Settings(tell=told.append, gpu_share=0.5)))
    assert [result.failure for result in results] == [""] * 4
    assert max(told) == "2 at once on 1 node"
    assert len({result.seconds for result in results}) == 2  # two stacks of two: the seconds are those of the stack

    options = ["--noise-rates", "0.2", "0.4", "--methods", "vanilla", "adaptive-k", "--seeds", "1"]
    options += ["--epochs", "4", "--warmup-epochs", "1", "--batch-size", "100"]
    main(["bench", "--out", str(tmp_path / "shared"), "--engine", "ray", "--gpu-share", "0.5", *options])
    assert "4 of 4" in (said := capsys.readouterr().out)
    assert "report.html" in said


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_what_is_no_cluster_is_said_at_once(address, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    wrong = Settings("cpu", address=address)
    with pytest.raises(ValueError, match=f"bench: address must be that of a Ray cluster .* got '{address}': "):
        list(bench(GRID.specs(epochs=1), tmp_path, "ray", wrong))
    assert not os.listdir(tmp_path / "runs")


def test_what_is_for_a_cluster_needs_its_engine():
    wrong = Settings("cpu", address="10.0.0.1:6379")
    with pytest.raises(ValueError, match=r"address and gpu_share are for the engine ray, .* the engine auto"):
        choose("auto", [], wrong)
    with pytest.raises(ValueError, match=r"gpu_share must be a number in \[0.01, 1\], got 2"):
        Settings("cpu", gpu_share=2)
