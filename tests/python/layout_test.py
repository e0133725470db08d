"""The ctypes definitions of python/vesper agree with the headers of include/vesper/.

    layout_test.py COMPILER     a C++ compiler
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from vesper import _structs
from vesper._library import PROTOTYPES, Status

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
HEADERS = {path.name: path.read_text() for path in sorted((REPOSITORY / "include/vesper").glob("*.h"))}
DECLARATIONS = re.sub(r"/\*.*?\*/", "", "\n".join(HEADERS.values()), flags=re.DOTALL)

# Prints what a type is to a caller: "p8" is a pointer of 8 bytes, "i4" an integer, "f8" a double.
PROGRAM_HEAD = """
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
template <class T> std::string kind() {
  if constexpr (std::is_void_v<T>) return "void";
  else {
    const char* letter = std::is_pointer_v<T> ? "p" : std::is_floating_point_v<T> ? "f" :
                         std::is_class_v<T> ? "s" : "i";
    return letter + std::to_string(sizeof(T));
  }
}
template <class R, class... A> std::string kinds(R (*)(A...)) {
  std::string line = kind<R>() + ":";
  ((line += " " + kind<A>()), ...);
  return line;
}
"""


def kind(ctype):
    if ctype is None:
        return "void"
    if issubclass(ctype, ctypes.Structure):
        return f"s{ctypes.sizeof(ctype)}"
    if issubclass(ctype, (ctypes._Pointer, ctypes._CFuncPtr, ctypes.c_char_p, ctypes.c_void_p)):
        return "p8"
    return ("f" if ctype in (ctypes.c_double, ctypes.c_float) else "i") + str(ctypes.sizeof(ctype))


def names_of_functions():
    return set(re.findall(r"\bvesper_(\w+)\(", "\n".join(
        declaration for declaration in re.findall(r"VESPER_API[^;]*;", DECLARATIONS))))


def body_of(struct):
    found = re.search(r"typedef struct " + struct + r" \{(.*?)\n?\} " + struct, DECLARATIONS, re.DOTALL)
    return found and found[1]


def output_of(lines):
    includes = "".join(f"#include <vesper/{name}>\n" for name in HEADERS)
    source = includes + PROGRAM_HEAD + "int main() {\n" + "\n".join(lines) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "layout.cc")
        path.write_text(source)
        subprocess.run([COMPILER, "-std=c++17", f"-I{REPOSITORY / 'include'}", path, "-o", f"{folder}/a"],
                       check=True)
        return subprocess.run([f"{folder}/a"], check=True, capture_output=True, text=True).stdout


class Layout(unittest.TestCase):
    maxDiff = None

    def test_every_function_has_a_prototype(self):
        self.assertEqual(set(PROTOTYPES), names_of_functions())

    def test_every_struct_with_fields_is_defined(self):
        declared = set(re.findall(r"typedef struct (\w+) \{", DECLARATIONS))
        self.assertEqual(set(_structs.STRUCTS), declared)

    def test_fields_are_those_of_the_headers_in_order(self):
        for name, struct in _structs.STRUCTS.items():
            body = re.sub(r"\[[^]]*\]", "", body_of(name))
            callbacks = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)
            fields = [re.search(r"(\w+)\s*$", part)[1] for declaration in callbacks.split(";")
                      for part in declaration.split(",") if part.strip()]
            self.assertEqual([field[0] for field in struct._fields_], fields, name)

    def test_sizes_and_offsets_are_those_of_the_compiler(self):
        expected, lines = "", []
        for name, struct in _structs.STRUCTS.items():
            expected += f"{name} {ctypes.sizeof(struct)}\n"
            lines.append(f'std::printf("{name} %zu\\n", sizeof({name}));')
            for field, *_ in struct._fields_:
                place = getattr(struct, field)
                expected += f"{name}.{field} {place.offset} {place.size}\n"
                lines.append(f'std::printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                             f"sizeof({name}::{field}));")
        self.assertEqual(output_of(lines), expected)

    def test_results_and_arguments_are_those_of_the_compiler(self):
        expected, lines = "", []
        for name, (result, arguments) in PROTOTYPES.items():
            result = ctypes.c_int if result is Status else result
            expected += f"{name} {kind(result)}:{''.join(' ' + kind(a) for a in arguments)}\n"
            lines.append(f'std::printf("{name} %s\\n", kinds(&vesper_{name}).c_str());')
        # Declared functions, never called: the program is not linked with the library.
        lines = [line.replace(f"kinds(&vesper_{name}).c_str()",
                              f"kinds(static_cast<decltype(&vesper_{name})>(nullptr)).c_str()")
                 for name, line in zip(PROTOTYPES, lines)]
        self.assertEqual(output_of(lines), expected)

    def test_constants_are_those_of_the_compiler(self):
        numbers = output_of([f'std::printf("{name} %lld\\n", (long long)VESPER_{name});'
                             for name in _structs.CONSTANTS])
        self.assertEqual(numbers, "".join(f"{name} {number}\n"
                                          for name, number in _structs.CONSTANTS.items()))


if __name__ == "__main__":
    COMPILER = sys.argv.pop(1)
    unittest.main()
