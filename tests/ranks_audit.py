"""The audit of Parquet files on several ranks; a check of `ranks`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import adaptivek

from . import made_parquet


def audit_of_parquet_files() -> None:
    """The result of one process, with every batch scored once, and none that an earlier run of one process has left."""
    from adaptivek.auditing import audit, held_out
    from adaptivek.auditing.large import scores

    shared = [TemporaryDirectory() if dist.get_rank() == 0 else None]
    place = [shared[0] and shared[0].name]
    dist.broadcast_object_list(place, 0)
    folder = Path(place[0])
    if dist.get_rank() == 0:
        made_parquet.split(made_parquet.table(), folder / "table", [700, 0, 110])
        made_parquet.split(made_parquet.reviews(), folder / "reviews", [250])
    dist.barrier()
    with pytest.MonkeyPatch.context() as patch:
        made_parquet.small_batches(patch)
        patch.setattr(held_out, "TREES", (10, 10))
        score, calls = scores._scored, []
        patch.setattr(scores, "_scored", lambda *given: (calls.append(given[4]), score(*given))[1])
        for name, label, model, rows in (("reviews", "stars", None, 600), ("table", "label", "trees", 1_500)):
            alone = adaptivek.audit(folder / name, label, model)
            assert calls == list(range(0, rows, 100))
            calls.clear()
            ours = adaptivek.audit(folder / name, label, model, folder=folder / f"{name} out", distributed=True)
            whole: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(whole, calls)
            assert [start for each in whole for start in each] == list(range(0, rows, 100))
            assert min(map(len, whole)) >= rows // 100 // dist.get_world_size()
            calls.clear()
            same_audit(ours, alone)
        assert not (folder / "table out" / "scored").exists()
        assert len(list((folder / "table out" / "issues").iterdir())) == 5
        with pytest.MonkeyPatch.context() as left:
            left.setattr(audit, "remove_parts", lambda _: None)
            left.setattr(audit.AuditResult, "save", lambda *_: None)
            if dist.get_rank() == 0:
                adaptivek.audit(folder / "table", "label", "trees", folder=folder / "stopped")
                for number in (2, 3, 9, 14):
                    (folder / "stopped" / "scored" / f"part-{number:05d}.npz").unlink()
        dist.barrier()
        calls.clear()
        again = adaptivek.audit(
            folder / "table", "label", "trees", folder=folder / "stopped", resume=True, distributed=True
        )
        assert calls == [[200, 300], [900, 1400]][dist.get_rank()]
        same_audit(again, alone)
        with pytest.raises(ValueError, match="distributed must be False for data in memory"):
            adaptivek.audit(torch.zeros(4, 2), torch.zeros(4), distributed=True)
    dist.barrier()


def same_audit(found: adaptivek.AuditResult, expected: adaptivek.AuditResult) -> None:
    """Equal in every bit."""
    for name in ("row", "label", "suggested_label", "score", "is_issue", "other_probability", "alike", "transition"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.headline == expected.headline
    assert (found.skipped, found.noise) == (expected.skipped, expected.noise)
