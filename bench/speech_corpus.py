#!/usr/bin/env python3
"""Makes a corpus for the rules of speech recognition from Debian packages of sounds.

    ~/.cache/vesper/peers/venv/bin/python bench/speech_corpus.py [--texts FOLDER] [--also FOLDER]

Needs a Python with faster-whisper (bench/peers.sh makes one). Writes {tuning,held-out}.jsonl to
vesper/speech-corpus in the user's cache folder or the folder of --corpus. Each line is a clip: its name, group, path in the
folder, language (null: to be detected) and text (null: unknown; "": no speech). Installs nothing:
packages are downloaded with apt-get and unpacked in the folder. The folder can be copied to another
machine; bench/speech_errors.py only needs the listed files.

Groups: dialogue of a game (bench/game_dialogue.py), in clips and joined; announcements with scripts in English and Russian, and without scripts in Spanish and French;
single numbers, days and months in four languages; spoken digits with pauses; spoken letters of twenty
languages; music, sounds and silence of games; announcements mixed with music or noise at 0 to 20 dB;
long recordings joined from different announcements.

The scripts of the announcements (core-sounds-LANGUAGE.txt) are in Debian's source package. If it is
not available, --texts is a folder with these files; without them, the announcements in English and
Russian and what is made of them are left out. --also is a folder of further recordings
NAME.wav or NAME.flac with texts NAME.txt, for the tuning half.

The hash of a clip's name selects its half. Rules are chosen on the tuning half; the held-out half is
for the final measurement only. Joined and mixed recordings use clips of their own half, except that
strings of digits share the ten recordings of digits.
"""

import argparse
import functools
import hashlib
import json
import pathlib
import random
import re
import shutil
import subprocess
import tarfile
import wave

import av
import numpy
from faster_whisper.audio import decode_audio

import game_dialogue
import recordings

CORPUS = recordings.cache_folder() / "speech-corpus"
HALVES = ("tuning", "held-out")
RATE_HZ = 16000

VOICES = {"en": "en_US_f_Allison", "ru": "ru_RU_f_IvrvoiceRU", "es": "es_MX_f_Allison",
          "fr": "fr_CA_f_June"}
PACKAGES = [f"asterisk-core-sounds-{language}-wav" for language in VOICES] + [
    "klettres-data", "supertux-data", "hedgewars-data", game_dialogue.PACKAGE]

# Names of the clips in digits/: 0 to 20, the tens, day-0 (Sunday) to day-6, mon-0 to mon-11.
NUMBER_CLIPS = [str(n) for n in [*range(21), *range(30, 100, 10)]] + [
    f"day-{n}" for n in range(7)] + [f"mon-{n}" for n in range(12)]
NUMBER_TEXTS = {
    "en": "zero,one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,thirteen,fourteen,"
          "fifteen,sixteen,seventeen,eighteen,nineteen,twenty,thirty,forty,fifty,sixty,seventy,"
          "eighty,ninety,sunday,monday,tuesday,wednesday,thursday,friday,saturday,january,february,"
          "march,april,may,june,july,august,september,october,november,december",
    "ru": "ноль,один,два,три,четыре,пять,шесть,семь,восемь,девять,десять,одиннадцать,двенадцать,"
          "тринадцать,четырнадцать,пятнадцать,шестнадцать,семнадцать,восемнадцать,девятнадцать,"
          "двадцать,тридцать,сорок,пятьдесят,шестьдесят,семьдесят,восемьдесят,девяносто,"
          "воскресенье,понедельник,вторник,среда,четверг,пятница,суббота,января,февраля,марта,"
          "апреля,мая,июня,июля,августа,сентября,октября,ноября,декабря",
    "es": "cero,uno,dos,tres,cuatro,cinco,seis,siete,ocho,nueve,diez,once,doce,trece,catorce,quince,"
          "dieciséis,diecisiete,dieciocho,diecinueve,veinte,treinta,cuarenta,cincuenta,sesenta,"
          "setenta,ochenta,noventa,domingo,lunes,martes,miércoles,jueves,viernes,sábado,enero,"
          "febrero,marzo,abril,mayo,junio,julio,agosto,septiembre,octubre,noviembre,diciembre",
    "fr": "zéro,un,deux,trois,quatre,cinq,six,sept,huit,neuf,dix,onze,douze,treize,quatorze,quinze,"
          "seize,dix-sept,dix-huit,dix-neuf,vingt,trente,quarante,cinquante,soixante,soixante-dix,"
          "quatre-vingts,quatre-vingt-dix,dimanche,lundi,mardi,mercredi,jeudi,vendredi,samedi,"
          "janvier,février,mars,avril,mai,juin,juillet,août,septembre,octobre,novembre,décembre",
}

# Sounds of games with speech, singing or shouting.
VOCAL_SOUNDS = re.compile(
    r"countdown|custom|hell_|Hellish|hogchant|Yoohoo|Kiss|denied|extratime|homerun|ride_of|skip|"
    r"suddendeath|invulnerable|lowgravity|BirdyLay|welldone|excellent|yeti|grunts|tada")

# Clips of each half.
SIZES = {"dialogue-en": 80, "long-dialogue-en": 4, "announcements-en": 130, "announcements-ru": 70, "announcements-es": 25,
         "announcements-fr": 25, "numbers": 14, "digits": 6, "letters": 2, "music": 26,
         "sounds": 36, "mixtures-en": 24, "mixtures-ru": 12, "long-en": 5, "long-ru": 2}


def order_of(name):
    return hashlib.sha256(name.encode()).digest()


def half_of(name):
    return HALVES[order_of(name)[0] % 2]


def seeded(name):
    return random.Random(order_of(name))


def fetch_scripts():
    """core-sounds-*.txt from the source package, with lists of sources of our own."""
    folder = CORPUS / "texts"
    if folder.exists():
        return
    apt = CORPUS / "apt"
    for part in ("lists/partial", "cache/archives/partial", "parts", "source"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    for path in pathlib.Path("/etc/apt/sources.list.d").glob("debian*.sources"):
        text = re.sub(r"(?m)^Types:.*", "Types: deb-src", path.read_text())
        (apt / "parts" / path.name).write_text(text)
    options = ["-qq", "-o", "Dir::Etc::SourceList=/dev/null", "-o",
               f"Dir::Etc::SourceParts={apt}/parts", "-o", f"Dir::State::Lists={apt}/lists", "-o",
               f"Dir::Cache={apt}/cache"]
    subprocess.run(["apt-get", *options, "update"], stderr=subprocess.DEVNULL)
    got = subprocess.run(["apt-get", *options, "source", "--download-only", "asterisk-core-sounds"],
                         cwd=apt / "source", stderr=subprocess.DEVNULL)
    folder.mkdir()
    for archive in (apt / "source").glob("*-wav.tar.gz"):
        with tarfile.open(archive) as tar:
            for member in tar:
                name = pathlib.PurePath(member.name).name
                if re.fullmatch(r"core-sounds-\w+\.txt", name):
                    (folder / name).write_bytes(tar.extractfile(member).read())
    if got.returncode:
        print("speech-corpus: no source package of the announcements: without --texts FOLDER they are "
              "left out")


def read_script(folders, language):
    """Texts by clip name: one "name: text" a line. Texts of sounds and parts are left out."""
    texts = {}
    for folder in folders:
        path = folder / f"core-sounds-{language}.txt"
        if not path.exists():
            continue
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, colon, text = line.partition(":")
            if colon and not line.startswith(";") and not re.search(r"[\[\]()*#@]|\.\.", text):
                texts[name.strip().removesuffix(".wav")] = text.strip()
        break
    return texts


def seconds_of(path):
    with wave.open(str(path)) as file:
        return file.getnframes() / file.getframerate()


def write_flac(path, samples):
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = (numpy.clip(samples, -1, 1) * 32767).astype("<i2")
    with av.open(str(path), "w", format="flac") as file:
        stream = file.add_stream("flac", rate=RATE_HZ, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = RATE_HZ
        file.mux([*stream.encode(frame), *stream.encode(None)])


@functools.lru_cache(64)
def load(path):
    return decode_audio(str(path), sampling_rate=RATE_HZ)


def level(samples):
    return float(numpy.sqrt(numpy.mean(numpy.square(samples)) + 1e-12))


def pause(seconds):
    return numpy.zeros(int(seconds * RATE_HZ), numpy.float32)


class Corpus:
    def __init__(self):
        self.clips = {half: [] for half in HALVES}

    def of(self, half, group):
        return [clip for clip in self.clips[half] if clip["group"] == group]

    def choose(self, group, candidates, size):
        """Adds the first `size` candidates of each half, by hash.

        A candidate is (name, source, language, text). The source is a path, or a function that
        returns samples, which are written to a file then.
        """
        left = dict.fromkeys(HALVES, size)
        for name, source, language, text in sorted(
                candidates, key=lambda candidate: order_of(f"{group}/{candidate[0]}")):
            half = half_of(f"{group}/{name}")
            if not left[half]:
                continue
            left[half] -= 1
            path = source
            if callable(source):
                path = CORPUS / "made" / group / f"{name}.flac"
                write_flac(path, source())
            self.clips[half].append({"name": f"{group}/{name}", "group": group, "path": str(path),
                                     "language": language, "text": text})


def add_dialogue(corpus):
    """Clips of a game, and eight minutes of them joined in recordings of two minutes."""
    clips = recordings.dialogue(CORPUS)

    def sound(name):
        path = CORPUS / "made" / "mp3" / f"{name}.mp3"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clips[name].mp3)
        return load(path)

    corpus.choose("dialogue-en", [(name, lambda name=name: sound(name), None, clip.text)
                                  for name, clip in clips.items()], SIZES["dialogue-en"])
    for half in HALVES:
        names = [name for name in clips if half_of(f"dialogue-en/{name}") == half]
        for number in range(SIZES["long-dialogue-en"]):
            # Successive clips of the game, from another place for each recording.
            at = len(names) * number // SIZES["long-dialogue-en"]
            parts, text, seconds = [], [], 0.0
            while seconds < 120:
                name = names[at % len(names)]
                at += 1
                parts += [sound(name), pause(recordings.PAUSE_S)]
                text.append(clips[name].text)
                seconds += clips[name].seconds + recordings.PAUSE_S
            path = CORPUS / "made" / "long-dialogue-en" / f"{half}-{number}.flac"
            write_flac(path, numpy.concatenate(parts))
            corpus.clips[half].append({
                "name": f"long-dialogue-en/{half}-{number}", "group": "long-dialogue-en",
                "path": str(path), "language": None, "text": " ".join(text)})


def add_announcements(corpus, language, script, folder):
    group = f"announcements-{language}"
    candidates = []
    for path in sorted(folder.glob("*.wav")):
        seconds, text = seconds_of(path), script.get(path.stem)
        if script:
            # Text that does not fit the duration of its clip belongs to another clip.
            words = len(text.split()) if text else 0
            if words < 2 or not 1 < words / seconds < 5:
                continue
        if 1 < seconds < 25 and path.stem != "tt-monkeys":  # they scream
            # English is detected, which is the default.
            candidates.append((path.stem, path, None if language == "en" else language, text))
    corpus.choose(group, candidates, SIZES[group])


def add_numbers(corpus, language, folder):
    words = NUMBER_TEXTS[language].split(",")
    corpus.choose(f"numbers-{language}",
                  [(clip, folder / f"{clip}.wav", language, word)
                   for clip, word in zip(NUMBER_CLIPS, words)], SIZES["numbers"])

    def digits(name):
        """Three numbers of five digits with pauses between them, 7 to 10 s."""
        chance = seeded(name)
        parts, text = [pause(chance.uniform(0.1, 0.8))], []
        for _ in range(3):
            for _ in range(5):
                digit = chance.randrange(10)
                parts += [load(folder / f"{digit}.wav"), pause(chance.uniform(0, 0.15))]
                text.append(words[digit])
            parts.append(pause(chance.uniform(0.3, 0.9)))
        return numpy.concatenate(parts), " ".join(text)

    names = [f"{language}-{number}" for number in range(5 * SIZES["digits"])]
    corpus.choose("digits", [(name, lambda name=name: digits(name)[0], language, digits(name)[1])
                             for name in names], SIZES["digits"])


def add_letters(corpus):
    folder = CORPUS / "packages/klettres-data/usr/share/klettres"
    for language in sorted(path.parent.name for path in folder.glob("*/alpha")):
        clips = sorted((folder / language).glob("*/*.ogg"))
        corpus.choose("letters", [(f"{language}-{path.parent.name}-{path.stem}", path, None, None)
                                  for path in clips], SIZES["letters"])


def add_sounds(corpus):
    games = [CORPUS / "packages/supertux-data/usr/share/games/supertux2",
             CORPUS / "packages/hedgewars-data/usr/share/games/hedgewars/Data"]

    def excerpt(path):
        samples = load(path)
        start = max(0, min(len(samples) // 4, len(samples) - 40 * RATE_HZ))
        return samples[start:start + 40 * RATE_HZ]

    music = sorted([*games[0].glob("music/**/*.ogg"), *games[1].glob("Music/*.ogg")])
    corpus.choose("music", [(path.stem, lambda path=path: excerpt(path), None, "")
                            for path in music], SIZES["music"])
    sounds = sorted([*games[0].glob("sounds/*.[ow][ga][gv]"), *games[1].glob("Sounds/*.ogg")])
    corpus.choose("sounds", [(path.name.replace(".", "-"), path, None, "") for path in sounds
                             if not VOCAL_SOUNDS.search(path.name)], SIZES["sounds"])
    silences = CORPUS / "packages/asterisk-core-sounds-en-wav/usr/share/asterisk/sounds"
    corpus.choose("sounds", [(f"silence-{path.stem}", path, None, "")
                             for path in sorted(silences.glob("*/silence/*.wav"))], 2)


def add_mixtures(corpus, language):
    """Announcements over music, a sound that goes on or white noise, at 0 to 20 dB."""
    group = f"mixtures-{language}"
    for half in HALVES:
        music = corpus.of(half, "music")
        candidates = []
        for clip in corpus.of(half, f"announcements-{language}"):
            if len(clip["text"].split()) >= 5:
                candidates.append(clip)
        for number, clip in enumerate(candidates[:SIZES[group]]):
            chance = seeded(group + clip["name"])
            ratio_db = (0, 5, 10, 20)[number % 4]
            speech = numpy.concatenate([pause(0.5), load(clip["path"]), pause(0.5)])
            if number % 3:
                behind = load(chance.choice(music)["path"])
                behind = numpy.resize(behind, len(speech))
            else:
                behind = numpy.random.default_rng(chance.randrange(2**32)).standard_normal(
                    len(speech))
            loud = level(load(clip["path"]))
            mixed = speech + behind * loud / level(behind) * 10 ** (-ratio_db / 20)
            name = f"{pathlib.Path(clip['path']).stem}-{ratio_db}dB"
            path = CORPUS / "made" / group / f"{name}.flac"
            write_flac(path, mixed / max(1, numpy.abs(mixed).max()))
            corpus.clips[half].append({"name": f"{group}/{name}", "group": group,
                                       "path": str(path), "language": clip["language"],
                                       "text": clip["text"]})


def add_long(corpus, language):
    """Announcements of 90 to 120 s in all, joined with pauses.

    The second of a half has music between them; the last two of English and the last one of Russian
    repeat six announcements in random order.
    """
    group = f"long-{language}"
    for half in HALVES:
        clips = corpus.of(half, f"announcements-{language}")
        for number in range(SIZES[group]):
            chance = seeded(f"{group}-{half}-{number}")
            order = chance.sample(clips, len(clips))
            if number >= SIZES[group] * 3 // 5:
                order = chance.choices(order[:6], k=60)
            parts, text, seconds = [], [], 0.0
            while seconds < 90 and order:
                clip = order.pop()
                samples = load(clip["path"])
                parts += [samples, pause(chance.uniform(0.2, 2.5))]
                text.append(clip["text"])
                seconds += (len(samples) + len(parts[-1])) / RATE_HZ
                if number == 1 and len(text) % 6 == 0:
                    music = load(chance.choice(corpus.of(half, "music"))["path"])[:8 * RATE_HZ]
                    parts += [music * 0.3, pause(0.5)]
                    seconds += 8.5
            name = f"{half}-{number}"
            path = CORPUS / "made" / group / f"{name}.flac"
            write_flac(path, numpy.concatenate(parts))
            corpus.clips[half].append({"name": f"{group}/{name}", "group": group,
                                       "path": str(path), "language": clips[0]["language"],
                                       "text": " ".join(text)})


def main():
    global CORPUS
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=pathlib.Path, default=CORPUS)
    parser.add_argument("--texts", type=pathlib.Path)
    parser.add_argument("--also", type=pathlib.Path)
    arguments = parser.parse_args()
    CORPUS = arguments.corpus.resolve()
    for package in PACKAGES:
        recordings.unpacked(package, CORPUS)
    fetch_scripts()
    corpus = Corpus()
    add_dialogue(corpus)
    with_script = []
    for language, voice in VOICES.items():
        folder = (CORPUS / f"packages/asterisk-core-sounds-{language}-wav/usr/share/asterisk/sounds"
                  / voice)
        script = read_script(filter(None, [arguments.texts, CORPUS / "texts"]), language)
        if script:
            with_script.append(language)
        if script or language not in ("en", "ru"):
            add_announcements(corpus, language, script, folder)
        add_numbers(corpus, language, folder / "digits")
    add_letters(corpus)
    add_sounds(corpus)
    for language in with_script:
        add_mixtures(corpus, language)
        add_long(corpus, language)
    for source in sorted(arguments.also.glob("*.[wf][al]*")) if arguments.also else ():
        path = CORPUS / "others" / source.name
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, path)
        corpus.clips["tuning"].append({
            "name": f"others/{path.stem}", "group": "others", "path": str(path),
            "language": None, "text": source.with_suffix(".txt").read_text(encoding="utf-8")})
    for half, clips in corpus.clips.items():
        for clip in clips:
            clip["path"] = str(pathlib.Path(clip["path"]).relative_to(CORPUS))
        lines = [json.dumps(clip, ensure_ascii=False) + "\n" for clip in clips]
        (CORPUS / f"{half}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"speech-corpus: {half}: {len(clips)} clips")


if __name__ == "__main__":
    main()
