"""A stock Hugging Face Trainer on sentences of which 40 % have a noisy label: plain, then with one line more."""

import random
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

from adaptivek import Selection
from adaptivek.integrations.huggingface import attach
from adaptivek.noise import Symmetric, corrupt

torch.set_num_threads(1)  # the network is too small to share
logging.set_verbosity_error()
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 15

WORDS = """
the a one this my your some very quite rather is was seems looks and but then so again today
goal referee striker league keeper penalty pitch coach stadium derby
oven butter recipe flour pan simmer garlic pastry whisk roast
violin chorus melody drummer concert chord tempo opera guitar encore
comet orbit telescope rocket galaxy crater eclipse planet probe nebula
"""
COMMON, *TOPICS = (line.split() for line in WORDS.strip().splitlines())
VOCABULARY = {word: number for number, word in enumerate(WORDS.split())}


def write(topic: int, dice: random.Random) -> list[str]:
    """Eight words, two of them of the topic."""
    words = [*dice.sample(TOPICS[topic], 2), *dice.choices(COMMON, k=6)]
    return dice.sample(words, len(words))


class Sentences(Dataset):
    def __init__(self, number: int, seed: int) -> None:
        dice = random.Random(seed)
        self.labels = torch.arange(number) % len(TOPICS)
        self.texts = [write(int(topic), dice) for topic in self.labels]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> dict[str, object]:
        return {"input_ids": [VOCABULARY[word] for word in self.texts[row]], "labels": self.labels[row]}


def train(name: str, criterion: Selection | None = None) -> None:
    set_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        num_labels=len(TOPICS),
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=20,
            learning_rate=1e-3,
            save_strategy="no",
            report_to="none",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=data)
        trainer.remove_callback(PrinterCallback)
        if criterion is not None:
            attach(trainer, criterion)  # the change
        trainer.train()
        found = trainer.predict(test)
    accuracy = (found.predictions.argmax(1) == found.label_ids).mean()
    print(
        f"{name:10}  test accuracy {accuracy:.3f}" + (f", noise found {criterion.noise_ratio:.3f}" if criterion else "")
    )


data, test = Sentences(1200, seed=0), Sentences(400, seed=1)
data.labels = corrupt(data.labels, Symmetric(0.4), classes=len(TOPICS), seed=0)[0]
train("vanilla")
# three plain epochs, then select; a run this short needs averages that settle sooner than the published ones
train("adaptive-k", Selection("adaptive-k:beta1=0.5,beta2=0.9", warmup=3 * len(data) // 20))
