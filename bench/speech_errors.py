#!/usr/bin/env python3
"""Transcribes a half of the corpus of bench/speech_corpus.py and counts errors.

    bench/speech_errors.py run NAME [--program build/transcribe] [--jobs N] [-- OPTION...]
    ~/.cache/vesper/peers/venv/bin/python bench/speech_errors.py run NAME --faster-whisper float32
    bench/speech_errors.py table [NAME...]
    bench/speech_errors.py differences NAME NAME

`run` writes the texts to results/HALF/MODEL/NAME.json in the folder of the corpus. `table` compares runs as
Markdown: word errors of clips with known text, empty results for clips of speech, and text for clips
without speech. --half held-out is for the final measurement only. Only --faster-whisper needs a
package besides Python's standard library.
"""

import argparse
import concurrent.futures
import datetime
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import time

import recordings
import word_errors

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = recordings.cache_folder() / "models"

# More words than this for a spoken letter or syllable are invented.
MOST_WORDS_OF_A_LETTER = 4


def clips_of(arguments):
    path = arguments.corpus / f"{arguments.half}.jsonl"
    if not path.exists():
        raise SystemExit(f"speech-errors: {path}: not found; make it with bench/speech_corpus.py")
    clips = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for clip in clips:
        clip["path"] = str(arguments.corpus / clip["path"])
    return [clip for clip in clips if not arguments.groups or clip["group"] in arguments.groups]


def by_language(clips):
    languages = {}
    for clip in clips:
        languages.setdefault(clip["language"], []).append(clip)
    return languages


# Rules against invented text act if speech is in doubt: above half of the no-speech threshold. This is
# lower, because rules may see other attempts than the one in the result.
SETTLED_NO_SPEECH_PROBABILITY = 0.2
WINDOW_S = 30


def transcribe(arguments, clips):
    """(texts by path, paths on which rules may act). A process transcribes several clips of a language."""
    texts = {}
    open_ = set()

    def run_program(task):
        language, paths = task
        command = [arguments.program, "-m", arguments.model, "-t", str(arguments.threads),
                   "--device", arguments.device, "-q", "-f", "jsonl", *arguments.options]
        if language:
            command += ["-l", language]
        return subprocess.run([*command, *paths], check=True, stdout=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, encoding="utf-8").stdout

    tasks = []
    for language, group in by_language(clips).items():
        # One job loads the model once per language; several jobs get parts of similar length.
        parts = min(len(group), 1 if arguments.jobs == 1 else 3 * arguments.jobs)
        tasks += [(language, [clip["path"] for clip in group[i::parts]]) for i in range(parts)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for line in "".join(pool.map(run_program, tasks)).splitlines():
            segment = json.loads(line)
            texts[segment["file"]] = texts.get(segment["file"], "") + segment["text"]
            if (segment["temperature"] > 0 or segment["end"] > WINDOW_S
                    or segment["no_speech_prob"] > SETTLED_NO_SPEECH_PROBABILITY):
                open_.add(segment["file"])
    return texts, open_ | {clip["path"] for clip in clips if clip["path"] not in texts}


def transcribe_with_faster_whisper(arguments, clips):
    """(texts by path, paths that its decoder of audio cannot read)."""
    import av
    from faster_whisper import WhisperModel

    model = WhisperModel(str(MODELS / arguments.model), device="cpu", local_files_only=True,
                         compute_type=arguments.faster_whisper, cpu_threads=arguments.threads)
    texts, unread = {}, set()
    for clip in clips:
        try:
            segments, _ = model.transcribe(clip["path"], language=clip["language"])
        except av.error.FFmpegError as error:  # one of klettres' recordings
            print(f"speech-errors: {clip['path']}: {error}", file=sys.stderr)
            unread.add(clip["path"])
            continue
        texts[clip["path"]] = "".join(segment.text for segment in segments)
    return texts, unread


def run(arguments):
    clips = clips_of(arguments)
    if arguments.open_in:
        before = load_result(arguments, arguments.open_in)
        clips = [clip for clip in clips if clip["name"] in before["open"]]
    start = time.perf_counter()
    if arguments.faster_whisper:
        what = (f"faster-whisper {importlib.metadata.version('faster-whisper')} "
                f"{arguments.faster_whisper}")
        texts, unread = transcribe_with_faster_whisper(arguments, clips)
        open_ = set()
    else:
        version = subprocess.run([arguments.program, "--version"], stdout=subprocess.PIPE,
                                 encoding="utf-8").stdout.strip()
        what = " ".join([version, *arguments.options])
        texts, open_ = transcribe(arguments, clips)
        unread = set()
    if arguments.open_in:  # the other clips have the same text
        texts = {**{clip["path"]: before["texts"][clip["name"]]
                    for clip in clips_of(arguments)}, **dict.fromkeys(
                        (clip["path"] for clip in clips), ""), **texts}
        open_, clips = set(), clips_of(arguments)
    result = {"what": what, "date": datetime.date.today().isoformat(),
              "seconds": round(time.perf_counter() - start, 1), "threads": arguments.threads,
              "texts": {clip["name"]: texts.get(clip["path"], "").strip() for clip in clips
                        if clip["path"] not in unread},
              "open": [clip["name"] for clip in clips if clip["path"] in open_]}
    path = result_path(arguments, arguments.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8")
    print(f"{path}: {len(clips)} clips in {result['seconds']} s")


def result_path(arguments, name):
    folder = arguments.results or arguments.corpus / "results"
    return folder / arguments.half / pathlib.Path(arguments.model).name / f"{name}.json"


def load_result(arguments, name):
    path = result_path(arguments, name)
    if not path.exists():
        raise SystemExit(f"speech-errors: {path}: not found; make it with `run {name}`")
    return json.loads(path.read_text(encoding="utf-8"))


def language_of(clip):
    """The language of a clip's words, also where the programs have to detect it."""
    return clip["language"] or "en"


def judge(clip, text):
    """(errors, words, is empty, is invented) of one clip."""
    words = word_errors.normalize(text, language_of(clip))
    if clip["text"] == "":
        return 0, 0, False, bool(words)
    if clip["text"] is None:
        return 0, 0, not words, clip["group"] == "letters" and len(words) > MOST_WORDS_OF_A_LETTER
    expected = word_errors.normalize(clip["text"], language_of(clip))
    if clip["group"] in ("digits", "others") and word_errors.are_digits(expected):
        expected, words = word_errors.split_digits(expected), word_errors.split_digits(words)
    return word_errors.distance(expected, words), len(expected), not words, False


def table(arguments):
    clips = clips_of(arguments)
    names = arguments.names or sorted(
        path.stem for path in result_path(arguments, "x").parent.glob("*.json"))
    results = {name: load_result(arguments, name) for name in names}
    common = [clip for clip in clips
              if all(clip["name"] in result["texts"] for result in results.values())]
    if len(common) < len(clips):
        print(f"{len(clips) - len(common)} clips that not every run has are left out.\n")
    clips = common
    groups = {}
    for clip in clips:
        groups.setdefault(clip["group"], []).append(clip)
    print(f"{arguments.half} half, model {arguments.model}, {machine()}; "
          "each cell: word errors, empty clips of speech (e), clips with an invention (i)\n")
    print("| group | clips | words | " + " | ".join(names) + " |")
    print("|---|--:|--:|" + "--:|" * len(names))
    totals = {name: [0, 0, 0] for name in names}
    all_words = 0
    for group, members in groups.items():
        cells = []
        for name in names:
            judged = [judge(clip, results[name]["texts"].get(clip["name"], "")) for clip in members]
            sums = [sum(column) for column in zip(*judged)]
            cells.append(cell(sums[0] if sums[1] else None, sums[2], sums[3]))
            for i, value in enumerate((sums[0], sums[2], sums[3])):
                totals[name][i] += value
        all_words += sums[1]
        print(f"| {group} | {len(members)} | {sums[1] or ''} | " + " | ".join(cells) + " |")
    print(f"| all | {len(clips)} | {all_words} | "
          + " | ".join(cell(*totals[name]) for name in names) + " |\n")
    for name in names:
        print(f"- {name}: {results[name]['what']}; {results[name]['date']}, "
              f"{results[name]['seconds']} s with {results[name]['threads']} thread(s)")


def cell(errors, empty, invented):
    parts = [] if errors is None else [str(errors)]
    parts += [f"{empty}e"] * bool(empty) + [f"{invented}i"] * bool(invented)
    return " ".join(parts) or "0"


def differences(arguments):
    """Clips whose judgement differs between two results, with both texts."""
    first, second = [load_result(arguments, name)["texts"] for name in arguments.names]
    for clip in clips_of(arguments):
        if clip["name"] not in first or clip["name"] not in second:
            continue
        texts = [first[clip["name"]], second[clip["name"]]]
        judged = [judge(clip, text) for text in texts]
        if judged[0] != judged[1]:
            print(f"{clip['name']} [{clip['text']}]")
            for name, text, (errors, _, empty, invented) in zip(arguments.names, texts, judged):
                print(f"  {name}: {cell(errors, empty, invented)}: {text}")


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), "unknown CPU")
    return f"{cpu}, {datetime.date.today().isoformat()}"


def parse(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "table", "differences"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--half", choices=("tuning", "held-out"), default="tuning")
    parser.add_argument("--groups", type=lambda names: names.split(","), metavar="NAME,...")
    parser.add_argument("--corpus", type=lambda path: pathlib.Path(path).resolve(),
                        default=recordings.cache_folder() / "speech-corpus")
    parser.add_argument("--results", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--model", default="base", help="a name or, without --faster-whisper, a path")
    parser.add_argument("--program", default=str(ROOT / "build/transcribe"))
    parser.add_argument("--faster-whisper", metavar="TYPE")
    parser.add_argument("--open-in", metavar="NAME", help="run only clips on which a rule may act, "
                        "by the result NAME, and take its texts for the others")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--threads", type=int, default=2, help="of each")
    split = given.index("--") if "--" in given else len(given)
    arguments = parser.parse_args(given[:split])
    arguments.options = given[split + 1:]
    if len(arguments.names) != {"run": 1, "differences": 2}.get(
            arguments.command, len(arguments.names)):
        parser.error(f"wrong number of names for {arguments.command}")
    return arguments


def main():
    arguments = parse(sys.argv[1:])
    if arguments.command == "table":
        return table(arguments)
    if arguments.command == "run":
        arguments.name = arguments.names[0]
        return run(arguments)
    differences(arguments)


if __name__ == "__main__":
    main()
