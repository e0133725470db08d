#!/usr/bin/env python3
"""Counts word errors: insertions, deletions and substitutions at the least edit distance.

    bench/word_errors.py TRANSCRIPT.txt HYPOTHESIS...

Prints "errors/words" for each hypothesis: a text file, a JSON file with a "text", or - for
standard input. Both sides are normalized first, by the rules of openai-whisper's English
normalizer that matter for speech: case, punctuation, brackets, fillers, contractions, titles,
numbers. British spellings are not converted.
"""

import json
import re
import sys
import unicodedata

FILLERS = {"hmm", "mm", "mhm", "mmm", "uh", "um"}

CONTRACTIONS = [
    (r"\bwon't\b", "will not"), (r"\bcan't\b", "can not"), (r"\blet's\b", "let us"),
    (r"\bain't\b", "aint"), (r"\by'all\b", "you all"), (r"\bwanna\b", "want to"),
    (r"\bgotta\b", "got to"), (r"\bgonna\b", "going to"), (r"\bi'ma\b", "i am going to"),
    (r"\bimma\b", "i am going to"), (r"\bwoulda\b", "would have"), (r"\bcoulda\b", "could have"),
    (r"\bshoulda\b", "should have"), (r"\bma'am\b", "madam"),
    (r"'d been\b", " had been"), (r"'s been\b", " has been"), (r"'d gone\b", " had gone"),
    (r"'s gone\b", " has gone"), (r"'d done\b", " had done"), (r"'s got\b", " has got"),
    (r"n't\b", " not"), (r"'re\b", " are"), (r"'s\b", " is"), (r"'d\b", " would"),
    (r"'ll\b", " will"), (r"'t\b", " not"), (r"'ve\b", " have"), (r"'m\b", " am"),
]

TITLES = {
    "mr": "mister", "mrs": "missus", "st": "saint", "dr": "doctor", "prof": "professor",
    "capt": "captain", "gov": "governor", "ald": "alderman", "gen": "general", "sen": "senator",
    "rep": "representative", "pres": "president", "rev": "reverend", "hon": "honorable",
    "asst": "assistant", "assoc": "associate", "lt": "lieutenant", "col": "colonel",
    "jr": "junior", "sr": "senior", "esq": "esquire",
}

UNITS = {word: value for value, word in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen".split())}
TENS = {word: 20 + 10 * i for i, word in enumerate(
    "twenty thirty forty fifty sixty seventy eighty ninety".split())}
NUMBERS = {**UNITS, **TENS}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
# An ordinal's cardinal and its suffix.
ORDINALS = {"first": ("one", "st"), "second": ("two", "nd"), "third": ("three", "rd"),
            "fifth": ("five", "th"), "eighth": ("eight", "th"), "ninth": ("nine", "th"),
            "twelfth": ("twelve", "th")}
ORDINALS.update({word + "th": (word, "th") for word in UNITS
                 if word not in ("one", "two", "three", "five", "eight", "nine", "twelve")})


def digits_of(run):
    """Number words in a row as digits: twenty three 23, two thousand 2000, nineteen eighty 1980."""
    finished = ""         # digits of the numbers before this one
    total = group = None  # this one: its full thousands, and what follows them
    for word in run:
        if word == "hundred":
            group = (group or 1) * 100
        elif word in SCALES:
            total, group = (total or 0) + (group or 1) * SCALES[word], None
        else:
            value = NUMBERS[word]
            after_hundred = group is not None and group >= 100 and group % 100 == 0
            after_tens = group is not None and group % 100 >= 20 and group % 10 == 0 < value < 10
            if group is not None and not after_hundred and not after_tens:
                finished += str((total or 0) + group)
                total = group = None
            group = (group or 0) + value
    return finished + str((total or 0) + (group or 0))


def join_numbers(words):
    """Spelled-out numbers as digits, except 1 alone: "one" is often a pronoun."""
    result, run = [], []
    for word, following in zip(words, words[1:] + [""]):
        if word in NUMBERS or (word in SCALES and run):
            run.append(word)
        elif word == "and" and run and run[-1] in SCALES and following in NUMBERS:
            continue
        elif word in ORDINALS:
            cardinal, suffix = ORDINALS[word]
            result.append(digits_of(run + [cardinal]) + suffix)
            run = []
        else:
            if run:
                result.append(digits_of(run))
                run = []
            result.append(word)
    if run:
        result.append(digits_of(run))
    return ["one" if word == "1" else word for word in result]


# Numbers of other languages as digits. Longer phrases come first.
OTHER_NUMBERS = {
    "ru": {0: "ноль", 1: "один одну одно", 2: "два две", 3: "три", 4: "четыре", 5: "пять", 6: "шесть",
           7: "семь", 8: "восемь", 9: "девять", 10: "десять", 11: "одиннадцать", 12: "двенадцать",
           13: "тринадцать", 14: "четырнадцать", 15: "пятнадцать", 16: "шестнадцать",
           17: "семнадцать", 18: "восемнадцать", 19: "девятнадцать", 20: "двадцать",
           30: "тридцать", 40: "сорок", 50: "пятьдесят", 60: "шестьдесят", 70: "семьдесят",
           80: "восемьдесят", 90: "девяносто"},
    "es": {0: "cero", 1: "uno", 2: "dos", 3: "tres", 4: "cuatro", 5: "cinco", 6: "seis", 7: "siete",
           8: "ocho", 9: "nueve", 10: "diez", 11: "once", 12: "doce", 13: "trece", 14: "catorce",
           15: "quince", 16: "dieciseis", 17: "diecisiete", 18: "dieciocho", 19: "diecinueve",
           20: "veinte", 30: "treinta", 40: "cuarenta", 50: "cincuenta", 60: "sesenta",
           70: "setenta", 80: "ochenta", 90: "noventa"},
    "fr": {0: "zero", 1: "un", 2: "deux", 3: "trois", 4: "quatre", 5: "cinq", 6: "six", 7: "sept",
           8: "huit", 9: "neuf", 10: "dix", 11: "onze", 12: "douze", 13: "treize", 14: "quatorze",
           15: "quinze", 16: "seize", 17: "dix_sept", 18: "dix_huit", 19: "dix_neuf", 20: "vingt",
           30: "trente", 40: "quarante", 50: "cinquante", 60: "soixante", 70: "soixante_dix",
           80: "quatre_vingt quatre_vingts", 90: "quatre_vingt_dix"},
}


def plain_letters(text):
    """Letters without accents; a space for every other character than letters, marks and digits."""
    return "".join(
        c if c.isalnum() or c == "." else "" if unicodedata.category(c) == "Mn" else " "
        for c in unicodedata.normalize("NFKD", text))


def number_words(language):
    """Digits by number word or phrase, the longest phrase first."""
    phrases = {}
    for value, words in OTHER_NUMBERS[language].items():
        for word in words.split():
            phrases[plain_letters(word).strip()] = str(value)
    return dict(sorted(phrases.items(), key=lambda item: -len(item[0])))


def normalize(text, language="en"):
    """The words of a text in one spelling.

    >>> " ".join(normalize("Mr. Smith won't, um, pay $1,250 for twenty-three [coughs] chairs..."))
    'mister smith will not pay 1250 for 23 chairs'
    >>> " ".join(normalize("One hundred and five of 1,000; the twenty-first: 3.5 caf\u00e9s."))
    '105 of 1000 the 21st 3.5 cafes'
    >>> " ".join(normalize("Appuyez sur le dix-sept, d'accord ?", "fr"))
    'appuyez sur le 17 d accord'
    """
    text = text.lower().replace("\u2019", "'").replace("\u2018", "'")
    text = re.sub(r"[<\[][^>\]]*[>\]]", "", text)  # <noise>, [BLANK_AUDIO]
    text = re.sub(r"\(([^)]+?)\)", "", text)
    if language == "en":
        text = re.sub(r"\s+'", "'", text)
        for pattern, replacement in CONTRACTIONS:
            text = re.sub(pattern, replacement, text)
    text = re.sub(r"(\d),(?=\d)", r"\1", text)
    text = re.sub(r"\.(?!\d)", " ", text)  # keeps the point of 3.5
    text = plain_letters(text)
    if language == "en":
        return join_numbers(
            [TITLES.get(word, word) for word in text.split() if word not in FILLERS])
    text = " ".join(text.split())
    for phrase, number in number_words(language).items() if language in OTHER_NUMBERS else ():
        text = re.sub(rf"\b{phrase}\b", number, text)
    return text.split()


SPELLED_DIGITS = {"oh": "0", "o": "0", "one": "1"}


def are_digits(words):
    return all(word.isdigit() or word in SPELLED_DIGITS for word in words)


def split_digits(words):
    """Words with each number as separate digits, for digits that are read out one by one.

    >>> split_digits(["9", "oh", "210", "one"])
    ['9', '0', '2', '1', '0', '1']
    """
    result = []
    for word in words:
        word = SPELLED_DIGITS.get(word, word)
        result += list(word) if word.isdigit() else [word]
    return result


def distance(expected, found):
    """Least number of insertions, deletions and substitutions of words."""
    row = list(range(len(found) + 1))  # distance of the words so far to each prefix of `found`
    for i, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def word_errors(reference, hypothesis):
    """(errors, words of the reference) of two English texts.

    >>> word_errors("ask what you can do", "And ask what you could do!")
    (2, 5)
    """
    expected = normalize(reference)
    return distance(expected, normalize(hypothesis)), len(expected)


def read_text(path):
    text = sys.stdin.read() if path == "-" else open(path, encoding="utf-8").read()
    return json.loads(text)["text"] if path.endswith(".json") else text


def main():
    if len(sys.argv) < 3:
        raise SystemExit("usage: word_errors.py TRANSCRIPT.txt HYPOTHESIS...")
    reference = read_text(sys.argv[1])
    for path in sys.argv[2:]:
        errors, words = word_errors(reference, read_text(path))
        print(f"{errors}/{words}\t{path}")


if __name__ == "__main__":
    main()
