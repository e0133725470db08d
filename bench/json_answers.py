#!/usr/bin/env python3
"""Answers of a language model to random JSON schemas, each validated.

    json_answers.py MODEL [N]     N answers at temperature 1 (1,000)

Needs the packages vesper and jsonschema. Prints the number of whole answers and of wrong ones, and
ends with 1 if any is wrong. An answer that the limit of 300 tokens ended counts as cut.
"""
import json
import random
import sys
import time

import jsonschema
import vesper

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


def main() -> int:
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    random_ = random.Random(1)
    schemas = [schema(random_) for _ in range(n)]
    n_whole = n_wrong = n_tokens = 0
    start = time.monotonic()
    with vesper.LanguageModel(sys.argv[1], context=1024) as model:
        for seed, each in enumerate(schemas):
            message = {"role": "user", "content": "Answer with JSON: " + json.dumps(each)[:600]}
            answer = model.generate([message], json_schema=each, temperature=1, seed=seed, max_tokens=300)
            n_tokens += answer.n_answer
            if answer.end != "model":
                continue
            n_whole += 1
            try:
                jsonschema.validate(json.loads(answer.text), each,
                                    format_checker=jsonschema.FormatChecker())
            except ValueError as error:
                print(error, answer.text, each)
                n_wrong += 1
            except jsonschema.ValidationError as error:
                print(error.message, answer.text, each)
                n_wrong += 1
    print(f"{n} answers of {n_tokens} tokens in {time.monotonic() - start:.0f} s: "
          f"{n_whole} whole, {n - n_whole} cut, {n_wrong} wrong")
    return n_wrong > 0


if __name__ == "__main__":
    sys.exit(main())
