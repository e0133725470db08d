"""Speech with exact text: the dialogue of a game in Debian, "Flight of the Amazon Queen".

Its package, flight-of-the-amazon-queen, has 3,700 clips of English dialogue by some 30 actors, MP3 at
11 kHz, and the subtitles to them: 23,000 words, 2,800 different ones. The formats of its files are
described by ScummVM, which plays it: engines/queen/resource.cpp (the archive) and talk.cpp (dialogue).
"""

import dataclasses
import re
import struct

PACKAGE = "flight-of-the-amazon-queen"
ARCHIVE = "usr/share/scummvm/flight-of-the-amazon-queen/queen.1c"

# The archive: "QTBL", the version of the game in 6 bytes, 2 bytes, the compression of its sounds
# (1: MP3), the number of entries. An entry: a name, the number of the file, offset and size in it.
HEADER = struct.Struct(">4s8sBH")
ENTRY = struct.Struct(">12sBII")
MP3 = 1
BYTES_PER_SECOND = 2000  # of the MP3 files: constant 16 kbit/s

# A dialogue begins with a header of 20 bytes; offsets count from its end.
DIALOGUE_HEADER_BYTES = 20
TREE_OFFSET = 32
BYTES_PER_LEVEL = 96

# Commands within a text: "*" and two characters, and a place in "*XY00(237,112)". A clip ends there.
COMMAND = re.compile(r"\*(?:XY\d\d\(\d+,\d+\)|..)")


@dataclasses.dataclass(frozen=True)
class Clip:
    name: str
    text: str
    mp3: bytes

    @property
    def seconds(self):
        return len(self.mp3) / BYTES_PER_SECOND


def read_archive(path):
    """Contents of the archive's files by name."""
    data = path.read_bytes()
    tag, _, compression, n_entries = HEADER.unpack_from(data)
    if tag != b"QTBL" or compression != MP3:
        raise SystemExit(f"{path}: expected the game's archive with MP3 sounds")
    files = {}
    for i in range(n_entries):
        name, _, offset, size = ENTRY.unpack_from(data, HEADER.size + i * ENTRY.size)
        files[name.rstrip(b"\0").decode("ascii")] = data[offset:offset + size]
    return files


def texts_of_dialogue(data):
    """(first part of the names of a text's clips, text) of a file of dialogue."""
    data = data[DIALOGUE_HEADER_BYTES:]
    n_levels, _, key, n_joe, n_person = struct.unpack_from(">5h", data)
    (person_offset,) = struct.unpack_from(">H", data, 22)
    joe_offset = TREE_OFFSET + BYTES_PER_LEVEL * abs(n_levels)
    for offset, n_texts, speaker in ((joe_offset, n_joe, "J"), (person_offset, n_person, "P")):
        for _ in range(n_texts):
            (number,) = struct.unpack_from(">2xH", data, offset)
            length = data[offset + 4]
            begin = offset + 5
            yield (f"{key:02d}{number:04X}{speaker}",
                   data[begin:begin + length].decode("latin-1"))
            offset = (begin + length + 3) // 4 * 4


def read_clips(package_folder):
    """The clips of the unpacked package that have a text, by name."""
    files = read_archive(package_folder / ARCHIVE)
    clips = {}
    for file in sorted(name for name in files if name.endswith(".DOG")):
        for stem, text in texts_of_dialogue(files[file]):
            for i, part in enumerate(COMMAND.split(text), 1):
                name = f"{stem}{i:X}"
                # A few names are used twice, with different texts.
                if part.strip() and f"{name}.SB" in files and name not in clips:
                    clips[name] = Clip(name, part.strip(), files[f"{name}.SB"])
    return clips
