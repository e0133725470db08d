#!/usr/bin/env python3
"""A fact hidden in a long text, found with each type of the KV cache.

    needle.py MODEL [--tokens N] [--texts N] [--kv-types TYPE ...]

A text of about N tokens (1,800) has the secret number of a city at one of five depths. The model
continues "The secret number of CITY is" after it, greedily. Prints how many numbers each type finds at
each depth, and how many of its answers are those of the first type. Needs the package vesper.
"""
import argparse
import random

import vesper

DEPTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
CITIES = ("Lisbon", "Oslo", "Cairo", "Lima", "Delhi", "Quito", "Dakar", "Hanoi", "Perth", "Turin")
SUBJECTS = ("The farmer", "A teacher", "The old sailor", "My neighbour", "The baker", "A young doctor")
VERBS = ("walked to", "painted", "wrote a letter about", "talked about", "dreamed of", "cleaned")
OBJECTS = ("the river", "a small garden", "the market", "the long road", "an old house", "the mountains")
TIMES = ("in the morning", "after lunch", "on a rainy day", "before winter", "every week", "last summer")


def sentence(random_: random.Random) -> str:
    return " ".join(random_.choice(part) for part in (SUBJECTS, VERBS, OBJECTS, TIMES)) + "."


def fact(city: str, number: int | str) -> str:
    return f"The secret number of {city} is {number}."


def prompt(model: vesper.LanguageModel, seed: int, depth: float, n_tokens: int) -> tuple[str, int]:
    """A text with the beginning of the fact after it, and the number."""
    random_ = random.Random(f"{seed} {depth}")
    city, number = random_.choice(CITIES), random_.randrange(1000, 10000)
    sentences: list[str] = []
    while len(model.tokenizer.encode(" ".join(sentences))) < n_tokens - 150:
        sentences += [sentence(random_) for _ in range(10)]
    sentences.insert(round(depth * len(sentences)), fact(city, number))
    return " ".join(sentences) + " " + fact(city, "").removesuffix(" ."), number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=1800, help="of a text")
    parser.add_argument("--texts", type=int, default=3, help="texts for each depth")
    parser.add_argument("--kv-types", nargs="+", default=["f16", "int8", "k=int8,v=int4"])
    options = parser.parse_args()
    first: dict[tuple[int, float], str] = {}
    for kv_type in options.kv_types:
        found, equal = [0] * len(DEPTHS), 0
        with vesper.LanguageModel(options.model, context=options.tokens + 100, kv_type=kv_type) as model:
            for seed in range(options.texts):
                for i, depth in enumerate(DEPTHS):
                    text, number = prompt(model, seed, depth, options.tokens)
                    answer = model.generate(text, temperature=0, max_tokens=8).text
                    found[i] += answer.strip().startswith(str(number))
                    equal += first.setdefault((seed, depth), answer) == answer
        depths = ", ".join(f"{round(100 * depth)}%: {count}" for depth, count in zip(DEPTHS, found))
        print(f"{kv_type}: {sum(found)} of {options.texts * len(DEPTHS)} found ({depths}), "
              f"{equal} answers as with {options.kv_types[0]}", flush=True)


if __name__ == "__main__":
    main()
