#!/usr/bin/env python3
"""Disables single rules of speech recognition and prints how the errors change.

    bench/speech_rules.py [--rules NAME,...] [OPTION... of bench/speech_errors.py run] [-- OPTION...]

The rules are those of WindowPolicy in decoder/windows/window_policy.h, with the names of
`transcribe --disable-rule NAME`. Options after -- are passed to transcribe. Needs the corpus of
bench/speech_corpus.py. The first run has all rules; each other run lacks a rule and decodes only the
clips on which a rule may act. Existing results are reused. `speech_errors.py table` prints them by
group.
"""

import pathlib
import re
import subprocess
import sys

import speech_errors

ROOT = pathlib.Path(__file__).resolve().parent.parent
# These are for live streams or voice activity, which this corpus does not use.
OTHER_RULES = {"extend-guesses", "delay-doubtful-words", "hold-until-speech-ends"}


def rule_names():
    header = (ROOT / "decoder/windows/window_policy.h").read_text(encoding="utf-8")
    return [name for name in re.findall(r'\{"([a-z-]+)", &WindowPolicy::', header)
            if name not in OTHER_RULES]


def main():
    options = sys.argv[1:]
    rules = rule_names()
    if options[:1] == ["--rules"]:
        rules, options = options[1].split(","), options[2:]
    split = options.index("--") if "--" in options else len(options)
    options, of_program = options[:split], ["--", *options[split + 1:]]
    script = [sys.executable, str(ROOT / "bench/speech_errors.py"), "run"]
    arguments = speech_errors.parse([*script[2:], "all-rules", *options])
    if not speech_errors.result_path(arguments, "all-rules").exists():
        subprocess.run([*script, "all-rules", *options, *of_program], check=True)
    clips = speech_errors.clips_of(arguments)
    with_all = speech_errors.load_result(arguments, "all-rules")["texts"]
    clips = [clip for clip in clips if clip["name"] in with_all]

    def count(texts):
        judged = [speech_errors.judge(clip, texts[clip["name"]]) for clip in clips]
        return [sum(one[i] for one in judged) for i in (0, 2, 3)]

    baseline = count(with_all)
    print(f"All rules, {len(clips)} clips ({arguments.half} half, model {arguments.model}, "
          f"{speech_errors.machine()}): {baseline[0]} word errors, {baseline[1]} empty clips of "
          f"speech, {baseline[2]} inventions.\n")
    print("| without | word errors | empty clips of speech | inventions | clips that change |\n"
          "|---|--:|--:|--:|--:|", flush=True)
    for rule in rules:
        name = f"without-{rule}"
        if not speech_errors.result_path(arguments, name).exists():
            subprocess.run([*script, name, "--open-in", "all-rules", *options,
                            *of_program, "--disable-rule", rule], check=True, stdout=subprocess.DEVNULL)
        texts = speech_errors.load_result(arguments, name)["texts"]
        cells = [f"{after - before:+d}" if after != before else "0"
                 for before, after in zip(baseline, count(texts))]
        changed = sum(texts[clip["name"]] != with_all[clip["name"]] for clip in clips)
        print(f"| {rule} | {' | '.join(cells)} | {changed} |", flush=True)


if __name__ == "__main__":
    main()
