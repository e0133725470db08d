#!/usr/bin/env python3
"""Answers of a language model to random JSON schemas, each validated.

    json_answers.py MODEL [N]     N answers at temperature 1 (1,000)

Needs the packages vesper and jsonschema. Prints the number of whole answers and of wrong ones after
each hundred, and ends with 1 if any is wrong. An answer that the limit of tokens ended counts as cut.
"""
import argparse
import json
import random
import sys
import time

import jsonschema
import vesper

PART = 100  # schemas between two lines of the report
WORDS = ("name", "age", "city", "id", "tags", "size", "note", "kind", "when", "who")


def schema(random_: random.Random, depth: int = 0) -> dict:
    kinds = ["string", "integer", "number", "boolean", "enum", "pattern", "format", "any"]
    if depth < 3:
        kinds += ["object"] * 4 + ["array"] * 2
    kind = "object" if depth == 0 else random_.choice(kinds)
    if kind == "object":
        names = random_.sample(WORDS, random_.randint(1, 4))
        return {"type": "object", "properties": {name: schema(random_, depth + 1) for name in names},
                "required": random_.sample(names, random_.randint(0, len(names))),
                "additionalProperties": False}
    if kind == "array":
        low = random_.randint(0, 2)
        return {"type": "array", "items": schema(random_, depth + 1), "minItems": low,
                "maxItems": low + random_.randint(0, 3)}
    if kind == "string":
        low = random_.randint(0, 4)
        return {"type": "string", "minLength": low, "maxLength": low + random_.randint(1, 20)}
    if kind in ("integer", "number"):
        low = random_.randint(-100, 100)
        return {"type": kind, "minimum": low, "maximum": low + random_.randint(1, 1000)}
    if kind == "enum":
        return {"enum": random_.sample(["red", "green", 7, None, True, "très bien"], random_.randint(1, 4))}
    if kind == "pattern":
        return {"type": "string", "pattern": random_.choice([r"^[A-Z]{2}-\d{3}$", r"^(a|bc)+$", r"^\w{1,8}$"])}
    if kind == "format":
        return {"type": "string", "format": random_.choice(["date", "uuid", "ipv4", "email"])}
    if kind == "any":
        return {"anyOf": [schema(random_, 3), schema(random_, 3)]}
    return {"type": "boolean"}


def fault(answer: str, wanted: dict) -> str:
    """Why the answer is not a text of the schema; empty if it is one."""
    try:
        jsonschema.validate(json.loads(answer), wanted, format_checker=jsonschema.FormatChecker())
    except jsonschema.ValidationError as error:
        return error.message
    except ValueError as error:
        return str(error)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("n", type=int, nargs="?", default=1000, help="number of schemas and answers")
    parser.add_argument("--batch", type=int, default=1, help="answers at once")
    parser.add_argument("--max-tokens", type=int, default=300, help="limit of an answer")
    parser.add_argument("--seed", type=int, default=1, help="of the schemas and the answers")
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    schemas = [schema(random_) for _ in range(options.n)]
    n_whole = n_cut = n_wrong = n_tokens = 0
    start = time.monotonic()
    with vesper.LanguageModel(options.model, context=1024, batch_size=options.batch) as model:
        for first in range(0, options.n, PART):
            part = schemas[first:first + PART]
            prompts = [[{"role": "user", "content": "Answer with JSON: " + ", ".join(wanted["properties"])}]
                       for wanted in part]
            each = [{"json_schema": wanted, "seed": options.seed + first + i} for i, wanted in enumerate(part)]
            answers = model.generate_many(prompts, each=each, temperature=1, max_tokens=options.max_tokens)
            for wanted, answer in zip(part, answers):
                if isinstance(answer, Exception):
                    print(answer, wanted)
                    n_wrong += 1
                    continue
                n_tokens += answer.n_answer
                if answer.end != "model":
                    n_cut += 1
                    continue
                n_whole += 1
                if why := fault(answer.text, wanted):
                    print(why, answer.text, wanted)
                    n_wrong += 1
            print(f"{first + len(part)} answers of {n_tokens} tokens in {time.monotonic() - start:.0f} s: "
                  f"{n_whole} whole, {n_cut} cut, {n_wrong} wrong", flush=True)
    return n_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
