"""A hook of mkdocs (mkdocs.yml): adds the pages that come from elsewhere than docs/, and turns links
to other files outside docs/ into plain text.

The programs print their own pages. The functions of the C API are documented in the headers.
"""
import os
import pathlib
import re
import subprocess

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
MADE = ROOT / "build/site-pages"
# Pages that show files outside docs/.
PAGE_OF = {"include/vesper.h": "c-headers.md", "THIRD-PARTY-NOTICES.md": "THIRD-PARTY-NOTICES.md"}
PROGRAMS = ("embed", "generate", "inspect", "serve", "transcribe", "vesper")


def indented(text):
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def page_of_program(name):
    """The page of a program from its --help-all: a heading and a block for each group of options."""
    program = ROOT / "build" / name
    if not program.exists():
        raise PluginError(f"{program} does not exist; `make` builds it")
    text = subprocess.run([program, "--help-all"], check=True, capture_output=True, text=True).stdout
    page = f"# {name}\n\n"
    for number, part in enumerate(text.split("\n\n")):
        heading, _, rest = part.partition("\n")
        if number > 0 and re.fullmatch(r"\S.*:", heading) and rest:
            page += f"## {heading[:-1]}\n\n"
            part = rest
        page += indented(part) + "\n"
    return page


def page_of_headers():
    page = ("# C headers\n\nThe reference of the C API: each function is documented where it is declared. "
            "[The C API](c.md) has an introduction.\n\n")
    for path in [ROOT / "include/vesper.h", *sorted((ROOT / "include/vesper").glob("*.h"))]:
        page += f"## {path.relative_to(ROOT / 'include')}\n\n{indented(path.read_text(encoding='utf-8'))}\n"
    return page


def on_files(files, config):
    made = {f"programs/{name}.md": page_of_program(name) for name in PROGRAMS}
    made["c-headers.md"] = page_of_headers()
    made["THIRD-PARTY-NOTICES.md"] = (ROOT / "THIRD-PARTY-NOTICES.md").read_text(encoding="utf-8")
    for path, text in made.items():
        (MADE / path).parent.mkdir(parents=True, exist_ok=True)
        (MADE / path).write_text(text, encoding="utf-8")
        files.append(File(path, str(MADE), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, files):
    folder = pathlib.PurePosixPath("docs", page.file.src_uri).parent

    def within_the_site(match):
        label, target = match[1], match[2]
        path = os.path.normpath(folder / target)
        if path in PAGE_OF:
            return f"[{label}]({os.path.relpath(PAGE_OF[path], folder.relative_to('docs'))})"
        is_page = path.startswith("docs/") and files.get_file_from_path(path.removeprefix("docs/"))
        return match[0] if is_page else label

    return re.sub(r"\[([^\]\n]*)\]\((?!\w+:|#)([^)#\s]+)(?:#[^)\s]*)?\)", within_the_site, markdown)
