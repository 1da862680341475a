"""What the documents say is run, and what they list is what there is."""

from __future__ import annotations

import difflib
import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import adaptivek
from adaptivek.methods import METHODS, defaults, needs

ROOT = Path(__file__).parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
HEADINGS = [
    "Idea", "Rule", "Parameters", "Cost", "When it fails", "Reference", "Differences from the authors' code",
]  # fmt: skip
#: what is called otherwise now: see docs/glossary.md
RETIRED = re.compile(
    r"by heart|sureness|\b(un)?sure(r|st)?\b|wrong(ly)? label|labels? (that )?(is|are|looks?) wrong|belie[fv]"
    r"|\bgiven label|AdaptiveKClassifier|\b(Average|Peers|Watch|Sparing)\(",
    re.IGNORECASE,
)
#: the documents, and code whose words are those of the documents
IN_THE_FIELDS_WORDS = [
    *(page for page in PAGES if page.name != "CONTRIBUTING.md"),
    *sorted((ROOT / "examples").glob("*.py")),
    *sorted(path for path in (ROOT / "src/adaptivek/auditing").iterdir() if path.suffix in (".py", ".html", ".js")),
    ROOT / "src/adaptivek/integrations/sklearn.py",
]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def code() -> list[tuple[str, str]]:
    """Of all pages but the tutorials, whose blocks go on from each other: tests/test_site.py runs these."""
    pages = [page for page in PAGES if page.parent.name != "tutorials"]
    return [(page.relative_to(ROOT).as_posix(), block) for page in pages for block in blocks(page)]


FRAMEWORKS = pytest.mark.filterwarnings(  # what Lightning and the Trainer remark on small data without a GPU
    "ignore::UserWarning:lightning", "ignore::FutureWarning:lightning", "ignore:'pin_memory' argument:UserWarning"
)


@FRAMEWORKS
@pytest.mark.parametrize(("page", "block"), code())
def test_code_in_the_documents_runs(page, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 3), torch.randn(8, 4), torch.randint(3, (8,))
    names = {"model": model, "x": x, "y": y, "losses": F.cross_entropy(model(x), y, reduction="none"), "labels": y}
    exec(block, names)
    if "criterion" in names:
        assert model.weight.grad is not None
        assert 0 < len(names["criterion"].kept) <= 8


def test_the_readme_has_code_and_both_commands():
    text = (ROOT / "README.md").read_text()
    assert blocks(ROOT / "README.md")
    assert "make demo" in text
    assert "make test" in text


def test_every_method_has_its_page_and_no_page_is_left_over():
    assert {page.stem for page in (ROOT / "docs/methods").glob("*.md")} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_pages_have_the_same_headings_and_the_real_parameters(name):
    page = (ROOT / f"docs/methods/{name}.md").read_text()
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    method = METHODS[name]
    assert method.name == name
    values = ", ".join(f'{k}="{v}"' if isinstance(v, str) else f"{k}={v}" for k, v in defaults(method).items())
    assert f'`adaptivek.{method.__name__}({values.replace("1e-08", "1e-8")})`, by name `"{name}"`' in page
    for parameter in defaults(method):
        assert f"| `{parameter}` |" in page
    listed = ", ".join(needs(method)) or "-"
    line = f"| [`{name}`](methods/{name}.md) | {method.summary} | {listed} |"
    assert (ROOT / "docs/methods.md").read_text().count(line) == 1, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
    for target in re.findall(r'(?:src|srcset|href)="([^"#]+)"', page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", IN_THE_FIELDS_WORDS, ids=lambda page: page.name)
def test_the_words_are_those_of_the_field(page):
    found = [match.group() for match in RETIRED.finditer(page.read_text())]
    assert not found


def test_names_in_the_glossary_are_those_of_the_code():
    text = (ROOT / "docs/glossary.md").read_text()
    names = re.findall(r"`((?:adaptivek|criterion|result)\.[\w.]+)`", text)
    assert len(names) > 50
    for name in names:
        assert there_is(name), name
    assert not there_is("adaptivek.Nothing")
    assert not there_is("criterion.nothing")


def there_is(name: str) -> bool:
    """Whether an attribute, a module or a field of this name exists."""
    start, *parts = name.split(".")
    criterion, result = adaptivek.Selection("vanilla"), adaptivek.AuditResult
    found: object = {"adaptivek": adaptivek, "criterion": criterion, "result": result}[start]
    for at, part in enumerate(parts):
        if hasattr(found, part):
            found = getattr(found, part)
        elif part in getattr(found, "__dataclass_fields__", {}):
            return True
        else:
            try:
                found = importlib.import_module(".".join([start, *parts[: at + 1]]))
            except ImportError:
                return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    for name in re.findall(r"\b(?:auditing|backend|benchmarks|examples)/\w+\.py", page.read_text()):
        assert (ROOT / name).exists() or (ROOT / "src/adaptivek" / name).exists(), name


def test_the_examples_run_and_differ_by_the_marked_line():
    plain, changed = ((ROOT / f"examples/{name}.py").read_text() for name in ("plain_loop", "adaptive_k_loop"))
    added = [line[2:] for line in difflib.ndiff(plain.splitlines(), changed.splitlines()) if line.startswith("+ ")]
    marked = [line for line in added if "# <- the change" in line]
    assert len(marked) == 1
    assert len(added) == 4  # and the docstring, the import, the line that prints
    for name in ("plain_loop", "adaptive_k_loop"):
        done = subprocess.run(
            [sys.executable, ROOT / f"examples/{name}.py", "2"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "test accuracy" in done.stdout


@FRAMEWORKS
@pytest.mark.parametrize("name", ["lightning_digits", "hf_text", "sklearn_digits"])
def test_the_examples_of_integrations_print_both_accuracies(name, monkeypatch, capsys):
    """In one epoch, in this process: the frameworks take long to import. The page has what a full run prints."""
    monkeypatch.setattr(sys, "argv", [name, "1"])
    runpy.run_path(str(ROOT / f"examples/{name}.py"))
    accuracies = dict(
        re.findall(r"^(vanilla|adaptive-k|selection) +test accuracy (\d\.\d+)", capsys.readouterr().out, re.MULTILINE)
    )
    assert len(accuracies) == 2
    assert "vanilla" in accuracies
    assert all(0 < float(accuracy) <= 1 for accuracy in accuracies.values())
    assert any(f"examples/{name}.py" in page.read_text() for page in (ROOT / "docs/guides").glob("*.md"))


@FRAMEWORKS
def test_the_example_of_fine_tuning_prints_both_accuracies(tmp_path, monkeypatch, capsys):
    """With an encoder that has learned nothing, on texts that have the class in them."""
    import pandas
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])}
    BertTokenizerFast(vocab=words).save_pretrained(tmp_path / "encoder")
    config = BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path / "encoder")
    texts = pandas.DataFrame({"text": ["good", "bad good bad"] * 60, "label": ["up", "down"] * 60})
    texts.to_parquet(tmp_path / "texts.parquet")
    given = f"--encoder {tmp_path}/encoder --texts {tmp_path}/texts.parquet --layers 1 --rows 96 --epochs 1"
    monkeypatch.setattr(sys, "argv", ["finetune_text", *given.split()])
    runpy.run_path(str(ROOT / "examples/finetune_text.py"))
    plain, selected = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"vanilla +test accuracy [01]\.\d+", plain)
    assert re.fullmatch(r"selection +test accuracy [01]\.\d+, noise found nan", selected)  # after one epoch
    assert "examples/finetune_text.py" in (ROOT / "docs/guides/fine-tune.md").read_text()
