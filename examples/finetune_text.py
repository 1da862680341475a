"""A pre-trained encoder, fine-tuned by a stock Hugging Face Trainer on noisy labels: plain, then with one line more.

    python examples/finetune_text.py --encoder FOLDER --texts train.parquet

A few minutes on two cores. Without arguments, encoder and texts come from the Hugging Face Hub.
"""

import argparse
import tempfile

import pandas
from torch.utils.data import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

from adaptivek import Selection, indexed
from adaptivek.integrations.huggingface import attach
from adaptivek.noise import Symmetric, corrupt

IMDB = "hf://datasets/stanfordnlp/imdb/plain_text/train-00000-of-00001.parquet"

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--encoder", default="sentence-transformers/all-MiniLM-L6-v2", help="folder, or name on the Hub")
parser.add_argument("--layers", type=int, default=3, help="of the encoder, from the first; fewer are faster")
parser.add_argument("--texts", default=IMDB, help="Parquet file with the columns text and label")
parser.add_argument("--rows", type=int, default=2_000, help="to train on; a quarter as many are for testing")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--noise", type=float, default=0.4, help="share of the training labels that become noisy")
given = parser.parse_args()
logging.set_verbosity_error()
logging.disable_progress_bar()

table = pandas.read_parquet(given.texts).sample(frac=1, random_state=0)[: given.rows + given.rows // 4]
labels, classes = pandas.factorize(table["label"], sort=True)
observed = corrupt(labels[: given.rows], Symmetric(given.noise), classes=len(classes), seed=0)[0]
tokenizer = AutoTokenizer.from_pretrained(given.encoder)
tokens = tokenizer(table["text"].tolist(), truncation=True, max_length=48)["input_ids"]
samples = [{"input_ids": ids, "labels": int(label)} for ids, label in zip(tokens, labels, strict=True)]
data, test = samples[: given.rows], samples[given.rows :]
for sample, label in zip(data, observed.tolist(), strict=True):
    sample["labels"] = label


def train(name: str, data: Dataset, criterion: Selection | None = None) -> None:
    set_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        given.encoder, num_labels=len(classes), num_hidden_layers=given.layers
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=given.epochs,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=256,
            learning_rate=5e-5,
            warmup_steps=0.06,
            remove_unused_columns=False,  # which row numbers would be
            dataloader_pin_memory=False,
            save_strategy="no",
            report_to="none",
            logging_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, train_dataset=data, processing_class=tokenizer)
        trainer.remove_callback(PrinterCallback)
        if criterion is not None:
            attach(trainer, criterion)  # the change
        trainer.train()
        found = trainer.predict(test)
    accuracy = (found.predictions.argmax(1) == found.label_ids).mean()
    print(
        f"{name:10}  test accuracy {accuracy:.3f}" + (f", noise found {criterion.noise_ratio:.3f}" if criterion else "")
    )


train("vanilla", data)
train("selection", indexed(data), Selection(rows=len(data)))
