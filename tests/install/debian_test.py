#!/usr/bin/env python3
"""Checks the files that describe the Debian packages, the service and the image against the programs.

    tests/install/debian_test.py BUILD_FOLDER
"""
import configparser
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path()  # the argument
UNIT = SOURCE / "packaging/vesper-serve.service"


def read(path):
    return (SOURCE / path).read_text(encoding="utf-8")


def paragraphs(text):
    """The paragraphs of debian/control and of similar files, as {field: value}."""
    found = []
    for paragraph in re.split(r"\n\n+", text.strip()):
        fields = re.findall(r"^([A-Za-z-]+): ?(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        found.append(dict(fields))
    return found


def package_names(field):
    """The names in a list of dependencies, without versions and variables."""
    names = [re.sub(r"[ :(].*", "", name.strip()) for name in field.split(",")]
    return {name for name in names if name and not name.startswith("$")}


def commands():
    """The programs that vesper runs."""
    table = re.search(r"kPrograms = \{\{(.*?)\}\};", read("cli/terminal/options.h"), re.DOTALL)[1]
    return [name for name in re.findall(r'\{"(\w+)"', table) if name != "vesper"]


def setup_packages():
    """The packages of scripts/setup.sh by the comment above them."""
    table = re.search(r"^packages=\(\n(.*?)^\)", read("scripts/setup.sh"), re.DOTALL | re.MULTILINE)[1]
    lists = {}
    for line in table.splitlines():
        if line.strip().startswith("#"):
            lists[line.strip("# ")] = names = []
        else:
            names.extend(line.split())
    return lists


def help_of_serve():
    return subprocess.run([BUILD / "serve", "--help-all"], text=True, capture_output=True, check=True).stdout


def service():
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser["Service"]


class DebianPackages(unittest.TestCase):
    def test_every_program_is_in_the_package_with_an_alternative_for_it_and_its_page(self):
        installed = read("debian/vesper.install").split()
        alternatives = {fields["Name"]: fields for fields in paragraphs(read("debian/vesper.alternatives"))}
        self.assertEqual(sorted(alternatives), sorted(commands()))
        self.assertEqual(re.search(r"^commands = (.*)", read("debian/rules"), re.MULTILINE)[1].split(), commands())
        description = next(fields["Description"] for fields in paragraphs(read("debian/control"))
                           if fields.get("Package") == "vesper")
        for command in commands():
            self.assertEqual(installed[installed.index(f"usr/bin/{command}") + 1], "usr/libexec/vesper")
            self.assertEqual(alternatives[command]["Link"], f"/usr/bin/{command}")
            self.assertEqual(alternatives[command]["Alternative"], f"/usr/libexec/vesper/{command}")
            page = f"/usr/share/man/man1/{command}.1.gz {command}.1.gz /usr/share/man/man1/vesper-{command}.1.gz"
            self.assertEqual(alternatives[command]["Dependents"].split(), page.split())
            self.assertIn(f" - {command} ", description)

    def test_the_build_needs_what_the_set_up_installs(self):
        needed = package_names(paragraphs(read("debian/control"))[0]["Build-Depends"])
        lists = setup_packages()
        installed = set().union(*lists.values())
        # pkgconf is what pkg-config became.
        self.assertLessEqual(needed - {"debhelper-compat", "dh-sequence-python3", "pkgconf"}, installed)
        # What only development and tests need is listed behind these.
        for comment, names in lists.items():
            if comment.startswith("tests"):
                break
            tools = {"ca-certificates", "ccache", "g++", "make", "mold", "pkg-config"}
            self.assertLessEqual(set(names) - tools, needed, comment)

    def test_the_static_library_has_a_suggestion_for_each_library_that_it_needs(self):
        suggested = next(package_names(fields["Suggests"]) for fields in paragraphs(read("debian/control"))
                         if fields.get("Package") == "libvesper-dev")
        requires = re.search(r"^Requires: (.*)", (BUILD / "vesper-static.pc").read_text(), re.MULTILINE)[1]
        for module in requires.split():
            folders = subprocess.run(["pkg-config", "--variable=pcfiledir", module], text=True,
                                     capture_output=True, check=True).stdout.strip()
            owner = subprocess.run(["dpkg", "--search", f"{folders}/{module}.pc"], text=True,
                                   capture_output=True, check=True).stdout
            self.assertIn(owner.split(":")[0], suggested, module)

    def test_each_package_of_the_table_exists_and_each_package_is_in_the_table(self):
        table = re.findall(r"^\| `([a-z0-9-]+)` \|", read("docs/installing.md"), re.MULTILINE)
        packages = {fields["Package"] for fields in paragraphs(read("debian/control")) if "Package" in fields}
        self.assertEqual(packages, packages & set(table))
        self.assertLessEqual({name for name in table if "vesper" in name}, packages)


class Service(unittest.TestCase):
    def test_the_package_has_the_unit_and_its_options(self):
        # dh_installsystemd takes it by this name.
        self.assertEqual((SOURCE / "debian/vesper.vesper-serve.service").resolve(), UNIT)
        self.assertIn("packaging/serve.conf etc/vesper\n", read("debian/vesper.install"))
        self.assertEqual(service()["EnvironmentFile"], "/etc/vesper/serve.conf")

    def test_the_package_enables_no_service_by_itself(self):
        self.assertIn("--name=vesper-serve --no-enable\n", read("debian/rules"))

    def test_the_options_are_those_of_the_program(self):
        self.assertEqual(service()["ExecStart"], "/usr/bin/vesper serve $OPTIONS")
        options = set(re.findall(r"(?<![\w-])(--[a-z-]+|-m)\b", read("packaging/serve.conf") + UNIT.read_text()))
        for option in options - {"--now"}:  # of systemctl
            self.assertRegex(help_of_serve(), rf"(?m)(^|[ ,]){option}\b", option)

    def test_the_unit_needs_no_group_and_no_program_that_a_small_system_lacks(self):
        self.assertNotIn("SupplementaryGroups", service())
        # dash is in every Debian system, /bin/kill in procps.
        self.assertTrue(service()["ExecReload"].startswith("/bin/sh "))

    def test_it_waits_longer_for_the_end_than_the_program_does(self):
        grace = re.search(r"--grace SECONDS.*?default: (\d+)", help_of_serve(), re.DOTALL)[1]
        self.assertGreater(int(service()["TimeoutStopSec"]), int(grace))

    def test_purging_removes_the_folders_of_the_unit(self):
        script = read("debian/vesper.postrm")
        for setting, folder in (("StateDirectory", "/var/lib"), ("CacheDirectory", "/var/cache")):
            self.assertIn(f" {folder}/{service()[setting]}", script)
            self.assertIn(f" {folder}/private/{service()[setting]}", script)
        keys = re.search(r"--api-keys (\S+)", read("packaging/serve.conf"))[1].rstrip(".")
        self.assertIn(f"rm -f {keys}\n", script)

    def test_systemd_accepts_the_unit_and_finds_little_exposure(self):
        with tempfile.TemporaryDirectory() as folder:
            # With a program that exists on this machine.
            unit = pathlib.Path(folder, UNIT.name)
            unit.write_text(UNIT.read_text().replace("/usr/bin/vesper", str(BUILD / "vesper")))
            for arguments in (["verify", "--man=no"], ["security", "--offline=yes", "--threshold=25"]):
                result = subprocess.run(["systemd-analyze", *arguments, unit], text=True, capture_output=True)
                self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)


class Image(unittest.TestCase):
    def test_every_copied_or_named_file_exists(self):
        text = read("packaging/Containerfile")
        for path in re.findall(r" /vesper/(\S+)", text):
            self.assertTrue((SOURCE / path).is_file(), path)

    def test_it_builds_what_the_make_target_builds(self):
        needed = re.search(r"packages\+=\((build-essential .*)\)", read("scripts/setup.sh"))[1].split()
        installed = re.search(r"install -y --no-install-recommends \\\n(.*?)&&", read("packaging/Containerfile"), re.DOTALL)[1]
        # Build-Depends has dh-python, by the sequence of that name.
        self.assertLessEqual(set(needed) - {"dh-python"}, set(installed.split()))

    def test_its_server_is_asked_for_its_health_where_it_listens(self):
        text = read("packaging/Containerfile")
        port, path = re.search(r"HEALTHCHECK .*?http://localhost:(\d+)(/[a-z/]+)", text, re.DOTALL).groups()
        self.assertRegex(help_of_serve(), rf"--port N.*default: {port}\b")
        self.assertIn(f"EXPOSE {port}\n", text)
        self.assertIn(f"`{path}`", read("docs/serve.md"))
        self.assertTrue(text.endswith('ENTRYPOINT ["vesper", "serve", "--host", "0.0.0.0"]\n'))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
