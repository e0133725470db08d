"""Tests of the scripts in bench/ that measure and compare: how words are counted, clips are chosen and
tables are written. word_errors_gate runs them on recordings."""

import doctest
import pathlib
import struct
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import compare  # noqa: E402
import comparison  # noqa: E402
import game_dialogue  # noqa: E402
import recordings  # noqa: E402
import word_errors  # noqa: E402


def dialogue_file(joe, person):
    """A file of dialogue with lists of (number, text)."""
    def texts(entries):
        data = b""
        for number, text in entries:
            data += struct.pack(">HHB", 0, number, len(text)) + text.encode()
            data += bytes(-(len(data) + game_dialogue.TREE_OFFSET) % 4)
        return data

    said_by_joe = texts(joe)
    person_offset = game_dialogue.TREE_OFFSET + len(said_by_joe)
    header = struct.pack(">5h", 0, 0, 7, len(joe), len(person)).ljust(22, b"\0")
    header += struct.pack(">H", person_offset)
    return (bytes(game_dialogue.DIALOGUE_HEADER_BYTES)
            + header.ljust(game_dialogue.TREE_OFFSET, b"\0") + said_by_joe + texts(person))


class WordErrors(unittest.TestCase):
    def test_examples(self):
        self.assertEqual(doctest.testmod(word_errors).failed, 0)


class GameDialogue(unittest.TestCase):
    def test_texts_have_the_names_of_their_clips(self):
        data = dialogue_file([(1, "Hi."), (0x2A, "Bye, then.")], [(3, "Who are you?")])
        self.assertEqual(list(game_dialogue.texts_of_dialogue(data)),
                         [("070001J", "Hi."), ("07002AJ", "Bye, then."), ("070003P", "Who are you?")])

    def test_an_archive_gives_a_clip_for_each_part_of_a_text(self):
        files = {"A.DOG": dialogue_file([(1, "One.*XY00(237,112)Two.*AOThree.")], []),
                 "070001J1.SB": b"x" * 4000, "070001J3.SB": b"y", "070001J9.SB": b"z"}
        offset = game_dialogue.HEADER.size + game_dialogue.ENTRY.size * len(files)
        table = game_dialogue.HEADER.pack(b"QTBL", b"CEM10", game_dialogue.MP3, len(files))
        for name, data in files.items():
            table += game_dialogue.ENTRY.pack(name.encode(), 1, offset, len(data))
            offset += len(data)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / game_dialogue.ARCHIVE
            path.parent.mkdir(parents=True)
            path.write_bytes(table + b"".join(files.values()))
            clips = game_dialogue.read_clips(pathlib.Path(folder))
        self.assertEqual({name: clip.text for name, clip in clips.items()},
                         {"070001J1": "One.", "070001J3": "Three."})
        self.assertEqual(clips["070001J1"].seconds, 2)


class Recordings(unittest.TestCase):
    def test_clips_with_the_most_new_words_are_chosen(self):
        clips = {name: game_dialogue.Clip(name, text, b"x" * 2000) for name, text in
                 (("a", "a red house"), ("b", "red house"), ("c", "green trees grow here"),
                  ("d", "green trees"))}
        self.assertEqual(recordings.clips_of_different_words(clips, 7), ["a", "c"])
        with self.assertRaisesRegex(SystemExit, "expected 8 different words .* found 7"):
            recordings.clips_of_different_words(clips, 8)


class Tables(unittest.TestCase):
    def test_spread_is_the_median_with_the_range(self):
        self.assertEqual(comparison.spread([3, 1, 2], 1, " s"), "2.0 s (1.0 to 3.0)")
        self.assertEqual(comparison.spread([1234.5], 0), "1,234")

    def test_order_rotates(self):
        self.assertEqual([comparison.rotated("abc", n) for n in (0, 1, 5)],
                         [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]])

    def test_the_part_between_markers_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            readme = pathlib.Path(folder) / "README.md"
            readme.write_text("one\n<!-- compare:cpu -->\nold\n<!-- /compare:cpu -->\ntwo\n")
            with unittest.mock.patch.object(compare, "README", readme):
                compare.write_between_markers("cpu", ["new"])
                self.assertEqual(readme.read_text(),
                                 "one\n<!-- compare:cpu -->\n\nnew\n\n<!-- /compare:cpu -->\ntwo\n")
                with self.assertRaisesRegex(SystemExit, "compare:gpu"):
                    compare.write_between_markers("gpu", ["new"])


if __name__ == "__main__":
    unittest.main()
