"""Checks grammars of JSON Schemas by hand. Needs: build/schema_texts, PyPI jsonschema.

  check_json_schema.py suite FOLDER     the cases of JSON-Schema-Test-Suite's tests/draft2020-12
  check_json_schema.py random COUNT     texts of random schemas, validated by jsonschema;
                                        --seed: the number before that of the first schema

"suite" gives each document to the grammar token by token. A valid document that is refused is
narrower than the standard; an invalid one that is accepted is a defect, and ends with status 1.
"random" makes schemas of random keywords and texts by random walks through their grammars.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Grammars:
    """Answers of build/schema_texts."""

    def __init__(self):
        self.process = subprocess.Popen([ROOT / "build/schema_texts"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, **question):
        print(json.dumps(question), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"schema_texts ended on {json.dumps(question)}")
        return json.loads(line)


def check_suite(folder):
    grammars = Grammars()
    counts, unsupported, narrower, defects = collections.Counter(), [], [], []
    for path in sorted(folder.glob("*.json")) + sorted(folder.glob("optional/format/*.json")):
        for case in json.loads(path.read_text()):
            texts = [json.dumps(t["data"], ensure_ascii=False) for t in case["tests"]]
            answer = grammars.ask(schema=case["schema"], texts=texts)
            name = f"{path.stem}: {case['description']}"
            if "error" in answer:
                # A schema that nothing matches is an error, and all documents are invalid.
                if not any(t["valid"] for t in case["tests"]) and "admits" in answer["error"]:
                    counts["refused as demanded"] += len(texts)
                    continue
                counts["not covered"] += len(texts)
                unsupported.append(f"{name}: {answer['error']}")
                continue
            for test, text, accepted in zip(case["tests"], texts, answer["accepted"]):
                if accepted == test["valid"]:
                    counts["accepted" if accepted else "refused as demanded"] += 1
                elif test["valid"]:
                    counts["narrower"] += 1
                    narrower.append(f"{name}: {text}")
                else:
                    counts["defects"] += 1
                    defects.append(f"{name}: {text}")
    for title, lines in (("Schemas that are errors", unsupported),
                         ("Valid documents that are refused", narrower),
                         ("Invalid documents that are accepted", defects)):
        print(f"{title}: {len(lines)}")
        for line in lines:
            print(f"  {line[:220]}")
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if defects else 0


PATTERNS = ["^[a-c]{2,5}$", "[0-9]", "^x", "y$", r"^\d{3}-\d{2}$", "^(foo|bar)+$", r"^\w+ \w+$", "é|ß"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "uri", "duration"]
NAMES = ["a", "b", "name", "x1", "foo bar", "é", "qu\"ote", "id"]


class Schemas:
    """Random schemas."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self):
        r = self.random
        return r.choice([None, True, False, r.randint(-5, 50), r.choice([0.5, 1.25, -3.75]), "a",
                         "foo", "abc", "é\"\n", [], [1, "a"], {}, {"a": 1}])

    def scalar_of(self, kind):
        r = self.random
        schema = {"type": kind}
        if kind == "string":
            choice = r.randrange(6)
            if choice == 0:
                schema["minLength"] = r.randint(0, 4)
                schema["maxLength"] = r.randint(4, 9)
            elif choice == 1:
                schema["pattern"] = r.choice(PATTERNS)
            elif choice == 2:
                schema["format"] = r.choice(FORMATS)
            elif choice == 3:
                schema["pattern"] = r.choice(PATTERNS)
                schema["maxLength"] = r.randint(6, 12)
            elif choice == 4:
                schema["not"] = {"enum": ["a", "foo", ""]}
        elif kind in ("integer", "number"):
            low, high = sorted((r.randint(-300, 300), r.randint(-300, 300)))
            if r.random() < 0.5:
                schema[r.choice(["minimum", "exclusiveMinimum"])] = low - r.choice([0, 0.5, 0.125])
            if r.random() < 0.5:
                schema[r.choice(["maximum", "exclusiveMaximum"])] = high + r.choice([2, 2.5])
            if r.random() < 0.3:
                schema["multipleOf"] = r.choice([2, 3, 7, 10, 0.5] if kind == "number" else [2, 3, 7, 10])
        return schema

    def schema(self, depth):
        r = self.random
        kinds = ["string", "integer", "number", "boolean", "null"]
        if depth > 0:
            kinds += ["array", "object", "object", "object", "union", "all", "if", "one", "not", "ref"]
        kind = r.choice(kinds)
        if kind in ("string", "integer", "number", "boolean", "null"):
            if r.random() < 0.15:
                return {"enum": [self.value() for _ in range(r.randint(1, 5))]}
            return self.scalar_of(kind)
        if kind == "union":
            if r.random() < 0.3:
                return {"type": r.sample(["string", "integer", "null", "array", "boolean"], 2)}
            return {"anyOf": [self.schema(depth - 1) for _ in range(r.randint(1, 3))]}
        if kind == "one":
            return {"oneOf": [self.schema(depth - 1) for _ in range(r.randint(1, 3))]}
        if kind == "all":
            return {"allOf": [self.object(depth - 1), self.object(depth - 1)]}
        if kind == "if":
            return {"type": "object", "if": {"required": ["a"]}, "then": self.object(depth - 1),
                    "else": self.object(depth - 1)}
        if kind == "not":
            return {"type": ["integer", "string", "object"], "not": self.schema(depth - 1)}
        if kind == "ref":
            return {"$ref": r.choice(["#", "#/$defs/node"])} if r.random() < 0.5 else {
                "$ref": "#/$defs/node"}
        return self.array(depth) if kind == "array" else self.object(depth)

    def array(self, depth):
        r = self.random
        schema = {"type": "array"}
        if r.random() < 0.3:
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(r.randint(1, 3))]
        if r.random() < 0.7:
            schema["items"] = self.schema(depth - 1)
        if r.random() < 0.4:
            schema["minItems"] = r.randint(0, 3)
        if r.random() < 0.4:
            schema["maxItems"] = r.randint(3, 5)
        if r.random() < 0.15:
            schema["contains"] = self.schema(0)
        if r.random() < 0.15:
            schema["uniqueItems"] = True
        return schema

    def object(self, depth):
        r = self.random
        names = r.sample(NAMES, r.randint(0, 5))
        schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if r.random() < 0.6:
            schema["required"] = r.sample(NAMES, r.randint(0, 2)) if r.random() < 0.2 else names[:2]
        if r.random() < 0.4:
            schema["additionalProperties"] = r.choice([False, False, self.schema(0)])
        if r.random() < 0.15:
            schema["patternProperties"] = {r.choice(["^x", "[0-9]$", "a"]): self.schema(0)}
        if r.random() < 0.1:
            schema["propertyNames"] = r.choice([{"maxLength": 4}, {"pattern": "^[a-z]+$"}])
        if r.random() < 0.1:
            schema["minProperties"] = r.randint(0, 3)
        if r.random() < 0.1:
            schema["maxProperties"] = r.randint(2, 4)
        if r.random() < 0.1:
            schema["dependentRequired"] = {r.choice(NAMES): [r.choice(NAMES)]}
        return schema

    def document(self):
        schema = self.schema(3)
        schema["$defs"] = {"node": self.object(1)}
        return schema


def check_random(n_texts, seed):
    grammars = Grammars()
    counts, errors, wrong = collections.Counter(), collections.Counter(), []
    slowest = (0.0, 0)
    while counts["valid"] + len(wrong) < n_texts:
        seed += 1
        schema = Schemas(seed).document()
        answer = grammars.ask(schema=schema, walks=5, seed=seed, undescribed=seed % 2 == 0)
        if answer.get("ms", 0) > slowest[0]:
            slowest = (answer["ms"], seed)
        counts["schemas"] += 1
        if "error" in answer:
            counts["schemas that are errors"] += 1
            errors[" ".join(w for w in answer["error"].split() if "#" not in w)[:90]] += 1
            continue
        validator = jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        for text in answer["texts"]:
            if text == "":
                counts["walks that became too long"] += 1
                continue
            try:
                error = next(validator.iter_errors(json.loads(text)), None)
            except (ValueError, RecursionError) as failure:
                error = failure
            if error is None:
                counts["valid"] += 1
            else:
                wrong.append((seed, schema, text, str(error).splitlines()[0]))
    for message, n in errors.most_common(12):
        print(f"  {n} x {message}")
    for seed, schema, text, error in wrong[:10]:
        print(f"seed {seed}: {json.dumps(schema)}\n  {text}\n  {error}")
    print(", ".join(f"{n} {what}" for what, n in counts.items()) +
          f", {len(wrong)} wrong, slowest schema {slowest[0]:.1f} ms (seed {slowest[1]})")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["suite", "random"])
    parser.add_argument("argument")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "suite":
        return check_suite(pathlib.Path(arguments.argument))
    return check_random(int(arguments.argument), arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
