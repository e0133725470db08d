#!/usr/bin/env python3
"""Installs a build into a temporary folder, moves it elsewhere, and uses it as others would.

    tests/install/install_test.py BUILD_FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CLIENT = SOURCE / "tests/install/client"
COMMANDS = ("embed", "generate", "inspect", "serve", "transcribe")
PROGRAMS = COMMANDS + ("vesper",)
BUILD = pathlib.Path()  # the argument


def run(*command, **options):
    """What a command prints. It fails the test if it fails or writes to standard error."""
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def version():
    return re.search(r"project\(vesper VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]


def declared_functions():
    """The functions of the public headers."""
    text = "".join(path.read_text() for path in (SOURCE / "include").rglob("*.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#.*(\\\n.*)*$", "", text, flags=re.MULTILINE)
    return sorted(re.findall(r"VESPER_API[^;]*?\b(vesper_\w+)\(", text))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        top = pathlib.Path(cls.folder.name)
        run("cmake", "--install", BUILD, "--prefix", "/opt/vesper", env=os.environ | {"DESTDIR": top / "staged"})
        # Elsewhere than where it was installed.
        cls.prefix = top / "moved here"
        shutil.move(top / "staged/opt/vesper", cls.prefix)
        assert not any(path.is_file() for path in (top / "staged").rglob("*"))
        cls.libraries = next(cls.prefix.glob("**/libvesper.so")).parent
        cls.work = top / "work"
        cls.work.mkdir()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def files(self):
        return [path for path in self.prefix.rglob("*") if path.is_file() and not path.is_symlink()]

    def check_client(self, program, is_shared=True):
        printed = run(program, env=os.environ | {"LD_LIBRARY_PATH": str(self.libraries) if is_shared else ""})
        self.assertEqual(printed.splitlines()[0], version())
        needed = run("readelf", "--dynamic", program)
        self.assertEqual("[libvesper.so.0]" in needed, is_shared, needed)

    def test_a_cmake_project_builds_in_c_and_cxx_with_both_libraries(self):
        build = self.work / "cmake"
        run("cmake", "-S", CLIENT, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", build)
        for language in ("c", "cxx"):
            self.check_client(build / f"{language}_client_vesper")
            self.check_client(build / f"{language}_client_static", is_shared=False)

    def test_cmake_names_a_version_and_a_component_that_do_not_fit(self):
        project = self.work / "misfits"
        project.mkdir()
        for request, message in (("0.1", "The following configuration files were considered but not accepted"),
                                 ("1.0", "version: 0.2.0"),
                                 ("COMPONENTS chocolate", "found chocolate")):
            (project / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(misfit LANGUAGES C)\n"
                f"find_package(Vesper {request} REQUIRED)\n")
            result = subprocess.run(
                ["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                text=True, capture_output=True)
            self.assertNotEqual(result.returncode, 0, request)
            self.assertIn(message, " ".join(result.stderr.split()), request)

    def test_a_c_program_builds_with_pkg_config_with_both_libraries(self):
        for module, is_shared in (("vesper", True), ("vesper-static", False)):
            # Debian's own modules only where the static library needs them.
            variable = "PKG_CONFIG_LIBDIR" if is_shared else "PKG_CONFIG_PATH"
            environment = os.environ | {variable: str(self.libraries / "pkgconfig")}
            self.assertEqual(run("pkg-config", "--modversion", module, env=environment).strip(), version())
            flags = run("pkg-config", "--cflags", "--libs", module, env=environment)
            program = self.work / module
            # The flags have escapes for a shell, because the folder has a space.
            run("sh", "-c", f"cc -std=c11 -Wall -Wextra -pedantic -Werror -o '{program}' '{CLIENT}/client.c' {flags}")
            self.check_client(program, is_shared)

    def test_the_shared_library_has_the_functions_of_the_headers_and_no_others(self):
        lines = run("nm", "--dynamic", "--defined-only", self.libraries / "libvesper.so").splitlines()
        symbols = sorted(line.split()[2] for line in lines if line.split()[1] != "A")
        self.assertEqual(symbols, [f"{name}@@VESPER_0" for name in declared_functions()])
        self.assertIn("[libvesper.so.0]", run("readelf", "--dynamic", self.libraries / "libvesper.so.0"))

    def test_no_file_names_the_folder_of_the_sources_or_of_the_build(self):
        for path in self.files():
            content = path.read_bytes()
            for folder in (SOURCE, BUILD):
                self.assertNotIn(os.fsencode(folder), content, path)
            if content.startswith(b"\x7fELF"):
                self.assertNotRegex(run("readelf", "--dynamic", path), "RPATH|RUNPATH", path)

    def test_programs_have_manual_pages_and_completions(self):
        share = self.prefix / "share"
        for program in PROGRAMS:
            self.assertIn(version(), run(self.prefix / "bin" / program, "--version"))
            self.assertIn(f".TH {program.upper()} 1", (share / f"man/man1/{program}.1").read_text())
            for shell, path in (("bash", f"bash-completion/completions/{program}"),
                                ("zsh", f"zsh/site-functions/_{program}"),
                                ("fish", f"fish/vendor_completions.d/{program}.fish")):
                self.assertIn(f"# Completions of {program} for {shell}", (share / path).read_text())
                run(shell, "-n", share / path)

    def completed_in_bash(self, *words):
        folder = self.prefix / "share/bash-completion/completions"
        quoted = " ".join(f"'{word}'" for word in words)
        return run("bash", "-c", f"source '{folder}/vesper'\ncompopt() {{ :; }}\nCOMP_WORDS=({quoted})\n"
                   f"COMP_CWORD={len(words) - 1}\n_vesper_vesper\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
                   env=self.environment()).split()

    def completed_in_fish(self, *words):
        data = {"XDG_DATA_HOME": str(self.work), "XDG_CONFIG_HOME": str(self.work)}
        folder = self.prefix / "share/fish/vendor_completions.d"
        lines = run("fish", "--no-config", "-c", f"set fish_complete_path '{folder}'\ncomplete -C '{' '.join(words)}'",
                    env=self.environment() | data).splitlines()
        return [line.split("\t")[0] for line in lines]

    def environment(self):
        return os.environ | {"PATH": f"{self.prefix}/bin:{os.environ['PATH']}"}

    def test_vesper_completes_its_commands_and_their_options(self):
        for completed in (self.completed_in_bash, self.completed_in_fish):
            self.assertEqual(completed("vesper", "tr"), ["transcribe"])
            self.assertLessEqual(set(COMMANDS), set(completed("vesper", "")))
            self.assertIn("--beam-size", completed("vesper", "transcribe", "--beam"))
            self.assertNotIn("--beam-size", completed("vesper", "embed", "--beam"))
            self.assertIn("cpu", completed("vesper", "transcribe", "--device", "c"))

    def test_vesper_runs_the_programs_beside_it_or_in_libexec(self):
        bin_folder = self.work / "elsewhere/bin"
        libexec = self.work / "elsewhere/libexec/vesper"
        shutil.copytree(self.prefix / "bin", bin_folder)
        vesper = bin_folder / "vesper"
        for command in COMMANDS:
            self.assertIn(version(), run(vesper, command, "--version"))
            self.assertEqual(run(vesper, "help", command), run(vesper, command, "--help"))
            self.assertIn(command, run(vesper, "--help"))
        libexec.mkdir(parents=True)
        for command in COMMANDS:
            shutil.move(bin_folder / command, libexec)
        # A program of that name of another package.
        (bin_folder / "inspect").symlink_to("/bin/false")
        for command in COMMANDS:
            self.assertIn(version(), run(vesper, command, "--version"))
        result = subprocess.run([vesper, "transcribe", "/no/such.wav", "-m", "/no/such"], text=True,
                                capture_output=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr.split(":")[0]), (3, "", "transcribe"))
        shutil.rmtree(libexec)
        (bin_folder / "inspect").unlink()
        result = subprocess.run([vesper, "inspect"], text=True, capture_output=True)
        self.assertEqual(result.returncode, 3)
        self.assertIn("inspect: expected a program in ", result.stderr)

    def test_vesper_names_its_commands(self):
        vesper = self.prefix / "bin/vesper"
        self.assertEqual(run(vesper), run(vesper, "--help"))
        for arguments, message in ((["trancribe"], 'expected a command (embed, generate, inspect, serve, transcribe), found "trancribe"'),
                                   (["help", "me"], 'found "me"'),
                                   (["help", "embed", "inspect"], "expected one command, found 2"),
                                   (["--loud"], "--loud"), ([""], 'found ""')):
            result = subprocess.run([vesper, *arguments], text=True, capture_output=True)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(message, result.stderr)

    def test_the_licence_and_the_notices_are_installed(self):
        for name in ("LICENSE", "THIRD-PARTY-NOTICES.md"):
            self.assertEqual((self.prefix / "share/doc/vesper" / name).read_text(), (SOURCE / name).read_text())

    def test_the_debian_packages_have_the_version_of_the_project(self):
        self.assertIn(f"vesper ({version()})", (SOURCE / "debian/changelog").read_text().splitlines()[0])
        # A program that is built with this release needs at least this release.
        self.assertIn(f"(symver)VESPER_0 {version()}", (SOURCE / "debian/libvesper0.symbols").read_text())


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
